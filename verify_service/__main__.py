from common.config import load_or_exit
from common.lifecycle import run
from verify_service.config import Config
from verify_service.server import serve

if __name__ == "__main__":
    config = load_or_exit(Config, "verify")
    run("verify", serve(config), config.log_level)
