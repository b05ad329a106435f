from common.config import load_or_exit
from common.lifecycle import run
from draft_service.config import Config
from draft_service.server import serve

if __name__ == "__main__":
    config = load_or_exit(Config, "draft")
    run("draft", serve(config), config.log_level)
