"""The life of the gateway: listen, serve, drain when told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from common import logging
from common.lifecycle import stop_event
from gateway.admission import Admission
from gateway.app import create_app
from gateway.config import Config
from gateway.router_client import RouterClient
from gateway.verify_client import VerifyClient

# For the last bytes of answers that are done; answers that are not are cut off after it.
FLUSH_SECONDS = 2

log = logging.get("gateway.server")


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


async def serve(config: Config) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    While draining, the listener stays open and /readyz says 503, so that whoever balances the load learns
    of it before connections are refused.
    """
    stop = stop_event()
    admission = Admission(config.max_concurrent)
    router = RouterClient(config.router_address, config.route_timeout_seconds)
    verify = VerifyClient(config.request_timeout_seconds)
    server = HttpServer(create_app(config, admission, router, verify), config.host, config.port)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(server.serve())
            await stop.wait()
            await _drain(admission, config.drain_seconds)
            server.should_exit = True
    finally:
        await verify.close()
        await router.close()


async def _drain(admission: Admission, seconds: float) -> None:
    log.info("draining", seconds=seconds)
    if not await admission.drain(seconds):
        log.warning("answers still run after the drain; they are cut off")
