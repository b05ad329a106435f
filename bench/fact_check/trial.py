"""Workers against a stream of drafted blocks, watched from the other end."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio import Redis

from bench.fact_check import drafts
from bench.fact_check.fleet import Fleet
from common import streams
from fact_check_service.group import DEAD

Key = tuple[str, int, int]

_READ_COUNT = 1_000
_READ_MS = 200
_QUIET_SECONDS = 30.0
_SETTINGS: dict[str, str | int] = {
    "checks": '["rules"]',
    "check_ms": 100,
    "claim_idle_ms": 1_000,
    "claim_every_seconds": "0.2",
    "max_age_ms": 3_600_000,
    "metrics_port": 0,
    "log_level": "error",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    Attributes:
        seconds: from the first verdict to the last.
        missing, repeated: blocks without a verdict, and with more than one.
        unsettled: entries that are still pending or were never delivered.
    """

    blocks: int
    kills: int
    seconds: float
    missing: int
    repeated: int
    unsettled: int
    dead_letters: int

    @property
    def exact(self) -> bool:
        return not (self.missing or self.repeated or self.unsettled or self.dead_letters)


class _Watch:
    """How often each block got a verdict."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._last: Any = "0-0"
        self.verdicts: Counter[Key] = Counter()

    async def until(self, blocks: int) -> AsyncIterator[int]:
        """Blocks with a verdict so far, whenever there are more; ends early when nothing comes any more."""
        heard = time.monotonic()
        while len(self.verdicts) < blocks and time.monotonic() < heard + _QUIET_SECONDS:
            if await self.read():
                heard = time.monotonic()
                yield len(self.verdicts)

    async def read(self) -> bool:
        answer = await self._redis.xread({streams.TAGS: self._last}, count=_READ_COUNT, block=_READ_MS)
        for entry_id, fields in cast(list[Any], answer)[0][1] if answer else ():
            self._last = entry_id
            tag = streams.decode_tag(fields)
            self.verdicts[tag.session_id, tag.block_id, tag.base_length] += 1
        return bool(answer)


async def run(url: str, blocks: int, workers: int, kills: int, seed: int) -> Outcome:
    """Have ``blocks`` checked by ``workers`` of which one is killed ``kills`` times, at random moments."""
    chance = random.Random(seed)
    moments = sorted(chance.sample(range(1, blocks), kills), reverse=True)
    async with Redis.from_url(url, protocol=2) as redis:
        await drafts.append(redis, blocks, seed)
        watch, killed, first = _Watch(redis), 0, 0.0
        with Fleet(workers, {**_SETTINGS, "redis_url": url}, chance) as fleet:
            async for seen in watch.until(blocks):
                first = first or time.monotonic()
                if moments and seen > moments[-1]:
                    killed += 1
                    fleet.replace_one()
                    moments = [moment for moment in moments if moment >= seen]
            seconds = time.monotonic() - first
            unsettled = await _settled(redis)
        while await watch.read():
            pass
        return Outcome(
            blocks=blocks,
            kills=killed,
            seconds=seconds,
            missing=sum(key not in watch.verdicts for key in _keys(blocks, seed)),
            repeated=sum(count > 1 for count in watch.verdicts.values()),
            unsettled=unsettled,
            dead_letters=await redis.xlen(DEAD),
        )


def _keys(blocks: int, seed: int) -> list[Key]:
    return [(each.session_id, each.block_id, each.base_length) for each in drafts.records(blocks, seed)]


async def _settled(redis: Redis) -> int:
    """What is left over when nothing is pending any more, or nobody settles it."""
    deadline = time.monotonic() + _QUIET_SECONDS
    while (left := await _left(redis)) and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    return left


async def _left(redis: Redis) -> int:
    (group,) = await redis.xinfo_groups(streams.DRAFTS)
    return int(group["pending"]) + int(group["lag"])
