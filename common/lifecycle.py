"""The life of a service process: metrics up, run until told to stop, drain."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any

import prometheus_client
from prometheus_client import Histogram

from common import logging
from common.errors import ConfigError

_LAG_SAMPLE_SECONDS = 0.05

EVENT_LOOP_LAG = Histogram(
    "tandem_event_loop_lag_seconds",
    "How late the event loop comes back to a timer that is due",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)


def serve_metrics(port: int) -> None:
    """Expose the default registry on ``port``; 0 turns it off."""
    if port:
        prometheus_client.start_http_server(port)


def stop_event() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, event.set)
    return event


def run(service: str, main: Coroutine[Any, Any, None], log_level: str) -> None:
    """Run a service's ``main`` to its end, with logging set up; a ConfigError exits with status 2."""
    logging.configure(service, log_level)
    try:
        asyncio.run(_watched(main))
    except ConfigError as error:
        print(f"{service}: {_naming_the_variable(service, error)}", file=sys.stderr)
        sys.exit(2)


async def watch_event_loop() -> None:
    """Sample the lag until cancelled; whoever blocks the loop shows once, at full length."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _LAG_SAMPLE_SECONDS
        await asyncio.sleep(_LAG_SAMPLE_SECONDS)
        EVENT_LOOP_LAG.observe(max(0.0, loop.time() - due))


async def _watched(main: Coroutine[Any, Any, None]) -> None:
    watching = asyncio.create_task(watch_event_loop())
    try:
        await main
    finally:
        watching.cancel()


def _naming_the_variable(service: str, error: ConfigError) -> str:
    """What code below a service knows as a field, its user knows as a variable."""
    if error.field is None or "TANDEM_" in error.message:
        return error.message
    return f"TANDEM_{service}_{error.field}".upper() + f": {error.message}"
