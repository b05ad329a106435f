"""The life of the service: rules read, metrics up, work until told to stop, drain."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from common import logging
from common.lifecycle import serve_metrics, stop_event
from fact_check_service import ending, metrics
from fact_check_service.checks import registry
from fact_check_service.checks.base import Check
from fact_check_service.checks.checker import Checker
from fact_check_service.config import Config
from fact_check_service.worker import Worker, connect

log = logging.get("server")


async def serve(config: Config) -> None:
    """Check drafted blocks until SIGTERM or SIGINT."""
    checks = registry.make_all(config)
    try:
        await _serve(checks, config)
    finally:
        await ending.close_checks(checks)
    log.info("stopped")


async def _serve(checks: Sequence[Check], config: Config) -> None:
    metrics.start(check.name for check in checks)
    serve_metrics(config.metrics_port)
    stop = stop_event()
    redis = connect(config)
    try:
        log.info("started", consumer=config.consumer, checks=config.checks)
        await _run(Worker(redis, Checker(checks, config.check_ms / 1000), config), stop, config.drain_seconds)
    finally:
        await ending.close("redis", redis.aclose)


async def _run(worker: Worker, stop: asyncio.Event, drain_seconds: float) -> None:
    """Run the worker to its end; past the drain time after ``stop`` what is left stays pending for others.

    A worker that does not notice that it is cancelled is left behind.
    """
    working = asyncio.create_task(worker.run(stop))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await ending.end("worker", working, drain_seconds)
    if working.done() and not working.cancelled():
        working.result()
