"""The life of the gateway: listen, serve, drain when told to stop."""

from __future__ import annotations

import asyncio

from common import logging
from common.http_server import HttpServer
from common.lifecycle import stop_event
from gateway.admission import Admission
from gateway.app import create_app
from gateway.config import Config
from gateway.router_client import RouterClient
from gateway.verify_client import VerifyClient

log = logging.get("gateway.server")


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
