from common.config import load_or_exit
from common.lifecycle import run
from gateway.config import Config
from gateway.server import serve

if __name__ == "__main__":
    config = load_or_exit(Config, "gateway")
    run("gateway", serve(config), config.log_level)
