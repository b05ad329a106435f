"""uvicorn inside of a service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

# For the last bytes of answers that are done; answers that are not are cut off after it.
FLUSH_SECONDS = 2


class HttpServer(uvicorn.Server):
    """Leaves signals to the process: uvicorn would close its listener at once and raise them again."""

    def __init__(self, app: FastAPI, host: str, port: int) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=FLUSH_SECONDS,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
