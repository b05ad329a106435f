"""The process that runs validators, as the service sees it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from common import logging
from common.constraint import LARGEST_CONSTRAINT_BYTES
from common.errors import Unavailable
from common.types import MOST_VALIDATORS
from verify_service.line_process import LineProcess

MODULE = "verify_service.validators.worker"
LONGEST_LINE = 16 * LARGEST_CONSTRAINT_BYTES * MOST_VALIDATORS

_HUNG_SECONDS = 3.0  # more than any may take to be made
_RESTART_SECONDS = 1.0

Task = dict[str, Any]
Answer = dict[str, Any]

log = logging.get("validators")


class Client:
    """Asks a worker, which is started when it is needed first, and again whenever it has died.

    Attributes:
        life: the number of the worker that runs now; what an earlier one knew is gone.
    """

    def __init__(self) -> None:
        self._process = LineProcess(MODULE, LONGEST_LINE)
        self._pending: deque[asyncio.Future[Answer | None]] = deque()
        self._running: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._asked_at = 0.0
        self.life = 0

    @property
    def ready(self) -> bool:
        return self._ready.is_set()

    @property
    def hung(self) -> bool:
        """Whether one task keeps the worker busy beyond all measure."""
        return bool(self._pending) and time.monotonic() - self._asked_at > _HUNG_SECONDS

    async def started(self, seconds: float) -> None:
        """Wait for the worker so long, if it must."""
        self.start()
        try:
            async with asyncio.timeout(seconds):
                await self._ready.wait()
        except TimeoutError:
            return

    def start(self) -> None:
        """Have a worker from now on."""
        if self._running is None:
            self._running = asyncio.create_task(self._run())

    def ask(self, tasks: Sequence[Task], forget: Sequence[str]) -> list[asyncio.Future[Answer | None]]:
        """One answer for each task, in their order; None where the worker dies of it."""
        loop = asyncio.get_running_loop()
        if not self._pending:
            self._asked_at = time.monotonic()
        asked: list[asyncio.Future[Answer | None]] = [loop.create_future() for _ in tasks]
        self._pending += asked
        self._process.write({"tasks": tasks, "forget": forget})
        return asked

    async def idle(self, seconds: float) -> bool:
        """Wait at most so long for what was asked before; whether all of it is answered."""
        if self._pending:
            await asyncio.wait([self._pending[-1]], timeout=seconds)
        return not self._pending

    def kill(self) -> None:
        """The worker hangs; another is started."""
        self._ready.clear()
        self._process.kill()

    async def close(self) -> None:
        if self._running:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._serve()
            await asyncio.sleep(_RESTART_SECONDS)

    async def _serve(self) -> None:
        """Start the worker and pass its answers on for as long as it lives."""
        try:
            await self._process.start()
            self.life += 1
            self._ready.set()
            while (answer := await self._process.read()) is not None:
                self._asked_at = time.monotonic()
                self._pending.popleft().set_result(answer)
            log.warning("the process of the validators died")
        except (OSError, TimeoutError, Unavailable) as error:
            log.warning("validators cannot be run", error=str(error))
        finally:
            self._ready.clear()
            while self._pending:
                self._pending.popleft().set_result(None)
            await self._process.close()
