"""Writing drafts, reading tags, waiting."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import cast

from prometheus_client import REGISTRY
from redis.asyncio import Redis
from redis.typing import EncodableT, FieldT

from common import streams
from common.streams import DraftRecord, TagRecord

TAIL = "Water boils at"
WRONG = " 90 °C"
RIGHT = " 100 °C"


def block(block_id: int, text: str = RIGHT, age_ms: int = 0) -> DraftRecord:
    whole = TAIL + text + "."
    return DraftRecord(
        session_id=f"session-{block_id % 7}",
        block_id=block_id,
        base_length=3,
        text=whole,
        block_start=len(TAIL),
        token_ends=(len(whole) - 1, len(whole)),
        source="test",
        created_ms=time.time_ns() // 1_000_000 - age_ms,
    )


async def append(redis: Redis, records: Iterable[DraftRecord]) -> None:
    async with redis.pipeline(transaction=False) as pipe:
        for record in records:
            pipe.xadd(streams.DRAFTS, cast(dict[FieldT, EncodableT], streams.encode(record)))
        await pipe.execute()


async def tags(redis: Redis) -> list[TagRecord]:
    entries = await redis.xrange(streams.TAGS)
    return [streams.decode_tag(fields) for _, fields in cast(list[tuple[bytes, dict[bytes, bytes]]], entries)]


async def tagged(redis: Redis) -> Counter[int]:
    """How often each block id was tagged."""
    return Counter(tag.block_id for tag in await tags(redis))


async def pending(redis: Redis) -> int:
    answer = await redis.xpending(streams.DRAFTS, streams.FACT_CHECK_GROUP)
    return int(cast(dict[str, int], answer)["pending"])


async def nothing_pending(redis: Redis) -> bool:
    return await pending(redis) == 0


async def has_tagged(redis: Redis, count: int) -> bool:
    """Whether so many block ids were tagged."""
    return len(await tagged(redis)) == count


async def has_group(redis: Redis) -> bool:
    return bool(await redis.exists(streams.DRAFTS)) and bool(await redis.xinfo_groups(streams.DRAFTS))


def counted(name: str, **labels: str) -> float:
    """What the workers of this process have counted."""
    return REGISTRY.get_sample_value(f"tandem_fact_check_{name}", labels) or 0.0


async def lag_is(value: int) -> bool:
    return counted("lag") == value


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)
