"""Ending what runs and closing what is open, in bounded time whatever becomes of a cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, runtime_checkable

from common import logging
from fact_check_service.checks.base import Check

CLOSE_SECONDS = 2.0
CANCEL_SECONDS = 1.0

Closing = Callable[[], Awaitable[None]]

log = logging.get("ending")


@runtime_checkable
class Closable(Protocol):
    """A check that holds something open; others need no ``close``."""

    async def close(self) -> None: ...


async def end(what: str, task: asyncio.Task[Any], seconds: float) -> None:
    """Wait for a task, and cancel it after ``seconds``; one that goes on even then is left behind."""
    await asyncio.wait({task}, timeout=seconds)
    if task.done():
        return
    log.warning("not ended in time", what=what, seconds=seconds)
    task.cancel()
    await asyncio.wait({task}, timeout=CANCEL_SECONDS)
    if not task.done():
        log.error("goes on after it was cancelled", what=what)


async def close_checks(checks: Iterable[Check]) -> None:
    """Close, side by side, those that can be closed."""
    closable = [(check.name, check.close) for check in checks if isinstance(check, Closable)]
    await asyncio.gather(*(close(name, closing) for name, closing in closable))


async def close(what: str, closing: Closing) -> None:
    """Close one thing; that it fails, or takes too long, is logged and no more."""
    task = asyncio.create_task(_called(closing))
    await end(f"closing {what}", task, CLOSE_SECONDS)
    if task.done() and not task.cancelled() and (error := task.exception()):
        log.warning("could not be closed", what=what, error=f"{type(error).__name__}: {error}")


async def _called(closing: Closing) -> None:
    await closing()
