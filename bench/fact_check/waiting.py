"""Steps of a verify service that wait for the verdicts on their blocks, which workers check meanwhile."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

from redis.asyncio import Redis
from redis.typing import EncodableT, FieldT

from bench.fact_check import drafts
from bench.fact_check.fleet import Fleet
from common import streams
from common.draft_types import Block
from common.streams import DraftRecord
from common.types import FactCheck
from verify_service.facts import FactCheckSession
from verify_service.tags import TagReader

_PASS_SECONDS = 0.02
_START_SECONDS = 30.0
_SETTINGS: dict[str, str | int] = {"metrics_port": 0, "log_level": "error"}

Awaited = tuple[FactCheckSession, Block]


@dataclass(frozen=True, slots=True)
class Waits:
    """``seconds`` of each step, the shortest first; of all ``blocks``, so many verdicts came ``in_time``."""

    seconds: tuple[float, ...]
    blocks: int
    in_time: int

    def quantile(self, share: float) -> float:
        return self.seconds[min(int(share * len(self.seconds)), len(self.seconds) - 1)]


class _Sequence:
    """One answer after another, block by block, each watched for its verdicts."""

    def __init__(self, reader: TagReader, redis: Redis, records: Iterator[DraftRecord], seed: int) -> None:
        self._reader = reader
        self._redis = redis
        self._records = records
        self._seed = seed
        self._session_id = ""
        self._session = FactCheckSession(FactCheck.VETO)

    async def draft(self) -> Awaited:
        record = next(self._records)
        if record.session_id != self._session_id:
            await self._begin(record.session_id)
        block = Block(record.block_id, record.base_length, tuple(range(len(record.token_ends))))
        self._session.add_block(block)
        await self._redis.xadd(streams.DRAFTS, cast(dict[FieldT, EncodableT], streams.encode(record)))
        return self._session, block

    async def _begin(self, session_id: str) -> None:
        await self._redis.set(streams.prompt_key(session_id), drafts.prompt(self._seed))
        self._reader.unwatch(self._session_id)
        self._session_id, self._session = session_id, FactCheckSession(FactCheck.VETO)
        self._reader.watch(session_id, self._session)


async def run(
    url: str,
    steps: int,
    sequences: int,
    workers: int,
    seed: int,
    *,
    budget_seconds: float,
    lead_seconds: float,
) -> Waits:
    """A block of each sequence is drafted, and a step waits for all their verdicts; then it makes its pass.

    Args:
        budget_seconds: longest for a wait.
        lead_seconds: of drafts that go ahead: from the last block to the step.
    """
    chance = random.Random(seed)
    seconds, in_time = [], 0
    async with Redis.from_url(url, protocol=2) as redis, _tailing(url) as reader:
        answers = [
            _Sequence(reader, redis, drafts.records(steps + 1, place), place)
            for place in range(seed, seed + sequences)
        ]
        with Fleet(workers, {**_SETTINGS, "redis_url": url}, chance):
            await _first(reader, answers, bool(workers))
            for _ in range(steps):
                awaited = [await answer.draft() for answer in answers]
                await asyncio.sleep(lead_seconds)
                started = time.perf_counter()
                await reader.wait(awaited, budget_seconds)
                seconds.append(time.perf_counter() - started)
                in_time += sum(session.has_tag(block) for session, block in awaited)
                await asyncio.sleep(_PASS_SECONDS)
    return Waits(tuple(sorted(seconds)), steps * sequences, in_time)


async def _first(reader: TagReader, answers: list[_Sequence], checked: bool) -> None:
    """Until the reader and the workers are there; the first block of each sequence is for this.

    Raises:
        TimeoutError: when they do not come.
    """
    async with asyncio.timeout(_START_SECONDS):
        while not reader.alive:
            await asyncio.sleep(0.01)
        awaited = [await answer.draft() for answer in answers]
        while checked and not all(session.has_tag(block) for session, block in awaited):
            await asyncio.sleep(0.01)


@asynccontextmanager
async def _tailing(url: str) -> AsyncIterator[TagReader]:
    reader = TagReader(url)
    task = asyncio.create_task(reader.run())
    try:
        yield reader
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await reader.close()
