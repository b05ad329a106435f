"""How many answers run at once, and how they end when the process must."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from common.errors import Overloaded, Unavailable
from gateway.metrics import INFLIGHT


class Admission:
    """Slots for answers. There is no queue here: the verify service has the one that matters."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.draining = False

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Held from before the body is read until the last byte is sent.

        Raises:
            Overloaded: when every slot is taken.
            Unavailable: when the gateway drains.
        """
        if self.draining:
            raise Unavailable("the gateway is shutting down")
        if self._running >= self._limit:
            raise Overloaded("the gateway has as many requests as it takes; try again later")
        self._enter()
        try:
            yield
        finally:
            self._leave()

    async def drain(self, seconds: float) -> bool:
        """Refuse new answers and wait for running ones; False when time ran out first."""
        self.draining = True
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def _enter(self) -> None:
        self._running += 1
        self._idle.clear()
        INFLIGHT.inc()

    def _leave(self) -> None:
        self._running -= 1
        INFLIGHT.dec()
        if not self._running:
            self._idle.set()
