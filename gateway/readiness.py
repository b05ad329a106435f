"""Whether a request sent now would be served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

LIFETIME_SECONDS = 1.0


class Readiness:
    """Remembers the probe's answer for a second; concurrent questions share one probe."""

    def __init__(
        self, probe: Callable[[], Awaitable[bool]], lifetime_seconds: float = LIFETIME_SECONDS
    ) -> None:
        self._probe = probe
        self._lifetime = lifetime_seconds
        self._lock = asyncio.Lock()
        self._ready = False
        self._expires = 0.0

    async def ready(self) -> bool:
        async with self._lock:
            if time.monotonic() >= self._expires:
                self._ready = await self._probe()
                self._expires = time.monotonic() + self._lifetime
            return self._ready
