"""``python -m fact_check_service``"""

from common.config import load_or_exit
from common.lifecycle import run
from fact_check_service.config import Config
from fact_check_service.server import serve

if __name__ == "__main__":
    config = load_or_exit(Config, "fact_check")
    run("fact_check", serve(config), config.log_level)
