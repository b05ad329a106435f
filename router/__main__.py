"""``python -m router`` starts the service."""

from common import config, lifecycle
from router.config import RouterConfig
from router.server import serve

if __name__ == "__main__":
    settings = config.load_or_exit(RouterConfig, "router")
    lifecycle.run("router", serve(settings), settings.log_level)
