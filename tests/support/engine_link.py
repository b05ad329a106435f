"""A whole draft engine behind the hub's ``Link``, in this process: what the stream does, without the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from common.model.runner import model_thread
from common.types import SessionUpdate
from draft_service.engine import DraftEngine, Stream
from draft_service.publisher import Publisher
from draft_service.sources.base import Source
from draft_service.vocabulary import Vocabulary
from verify_service.drafts.breaker import WaitBreaker
from verify_service.drafts.link import OnAnswers, OnLost


class NoDecoder:
    def decode(self, token_ids: Sequence[int]) -> str:
        raise AssertionError("nothing is published")


class EngineLink:
    """Updates are taken in one message each, in their order."""

    up = True

    def __init__(self, source: Source, vocabulary: Vocabulary, max_sessions: int = 64) -> None:
        self.breaker = WaitBreaker()
        publisher = Publisher("", NoDecoder())
        self._engine = DraftEngine(source, vocabulary, publisher, model_thread(), max_sessions=max_sessions)
        self._updates: asyncio.Queue[SessionUpdate] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, on_answers: OnAnswers, on_lost: OnLost) -> None:
        stream = self._engine.connect()
        work = (self._engine.run(), self._hand_in(stream), _hand_out(stream, on_answers))
        self._tasks = [asyncio.create_task(each) for each in work]

    def send(self, update: SessionUpdate) -> None:
        self._updates.put_nowait(update)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _hand_in(self, stream: Stream) -> None:
        while True:
            await self._engine.take(stream, [await self._updates.get()])


async def _hand_out(stream: Stream, on_answers: OnAnswers) -> None:
    async for answers in stream:
        on_answers(answers)
