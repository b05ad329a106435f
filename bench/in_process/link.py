"""A draft engine in the verify service's own process: no stream, no message, no bytes."""

from __future__ import annotations

import asyncio

from common.draft_types import SessionUpdate
from draft_service.engine import DraftEngine, Stream
from verify_service.drafts.breaker import WaitBreaker
from verify_service.drafts.link import OnAnswers, OnLost


class InProcessLink:
    """Hands the engine what a step has gathered, as ``DraftLink`` would send it; always up."""

    up = True

    def __init__(self, engine: DraftEngine) -> None:
        """``engine`` runs in the event loop of the link."""
        self.breaker = WaitBreaker()
        self._engine = engine
        self._stream = Stream()
        self._unsent: list[SessionUpdate] = []
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, on_answers: OnAnswers, on_lost: OnLost) -> None:
        self._stream = self._engine.connect()
        self._tasks = [asyncio.create_task(self._read(on_answers)), asyncio.create_task(self._write())]

    def send(self, update: SessionUpdate) -> None:
        self._unsent.append(update)
        self._wake.set()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._engine.release(self._stream)

    async def _read(self, on_answers: OnAnswers) -> None:
        async for answers in self._stream:
            on_answers(answers)

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            updates, self._unsent = self._unsent, []
            await self._engine.take(self._stream, updates)
