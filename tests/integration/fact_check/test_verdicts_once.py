"""A verdict is stored once, however often its block is delivered, and never when it comes too late."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence

from redis.asyncio import Redis

from common import streams
from common.streams import DraftRecord
from fact_check_service.checks.base import Context, Finding
from fact_check_service.group import marker
from tests.integration.fact_check.conftest import HASTY, StartWorker
from tests.integration.fact_check.support import (
    append,
    block,
    counted,
    has_tagged,
    nothing_pending,
    pending,
    tagged,
    tags,
    until,
)


class Slow:
    """A checker that waits until it may go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def check(self, context: Context) -> Sequence[Finding]:
        self.reached.set()
        await self.may_go_on.wait()
        return ()


async def test_a_slow_worker_does_not_repeat_the_verdicts_of_who_took_over(
    redis: Redis, start_worker: StartWorker
) -> None:
    duplicates = counted("duplicates_total")
    slow = Slow()
    start_worker("slow", slow)
    await append(redis, map(block, range(20)))
    await slow.reached.wait()
    start_worker("quick")
    await until(lambda: has_tagged(redis, 20))
    slow.may_go_on.set()
    await until(lambda: counted_to("duplicates_total", duplicates + 20))
    assert await tagged(redis) == dict.fromkeys(range(20), 1)
    assert await pending(redis) == 0


async def test_a_block_that_was_appended_twice_is_tagged_once(
    redis: Redis, start_worker: StartWorker
) -> None:
    start_worker("one")
    await append(redis, [block(1), block(1), block(2)])
    await until(lambda: has_tagged(redis, 2))
    await append(redis, [block(1), block(3)])
    await until(lambda: has_tagged(redis, 3))
    assert await tagged(redis) == dict.fromkeys((1, 2, 3), 1)


async def test_the_group_may_start_over_and_each_block_keeps_its_one_verdict(
    redis: Redis, start_worker: StartWorker
) -> None:
    duplicates = counted("duplicates_total")
    start_worker("one")
    await append(redis, map(block, range(30)))
    await until(lambda: has_tagged(redis, 30))
    await redis.xgroup_destroy(streams.DRAFTS, streams.FACT_CHECK_GROUP)
    await until(lambda: counted_to("duplicates_total", duplicates + 30))
    assert await tagged(redis) == dict.fromkeys(range(30), 1)


async def test_blocks_of_one_number_differ_by_session_and_base(
    redis: Redis, start_worker: StartWorker
) -> None:
    first = block(1)
    of_another = dataclasses.replace(first, session_id="another")
    start_worker("one")
    await append(redis, [each for one in (first, of_another) for each in (one, further_on(one))])
    await until(lambda: has_tags(redis, 4))


async def test_what_keeps_a_verdict_single_goes_when_the_block_is_too_old_for_one(
    redis: Redis, start_worker: StartWorker
) -> None:
    record = block(1)
    start_worker("one", max_age_ms=700)
    await append(redis, [record])
    await until(lambda: has_tagged(redis, 1))
    assert 0 < await redis.pttl(marker(record)) <= 700
    await until(lambda: is_gone(redis, marker(record)))


async def test_old_blocks_are_acknowledged_and_not_tagged(redis: Redis, start_worker: StartWorker) -> None:
    expired = counted("expired_total")
    start_worker("one")
    old = HASTY.max_age_ms + 1_000
    await append(redis, (block(number, age_ms=old * (number % 2)) for number in range(10)))
    await until(lambda: counted_to("expired_total", expired + 5))
    await until(lambda: nothing_pending(redis))
    assert await tagged(redis) == dict.fromkeys(range(0, 10, 2), 1)


async def test_a_block_that_grew_old_while_it_was_checked_is_not_tagged(
    redis: Redis, start_worker: StartWorker
) -> None:
    expired = counted("expired_total")
    slow = Slow()
    start_worker("one", slow, max_age_ms=500)
    await append(redis, [block(1)])
    await slow.reached.wait()
    await asyncio.sleep(0.6)
    slow.may_go_on.set()
    await until(lambda: counted_to("expired_total", expired + 1))
    assert await pending(redis) == 0
    assert await tags(redis) == []


async def test_a_clock_ahead_of_ours_does_not_keep_a_block_young_for_ever(
    redis: Redis, start_worker: StartWorker
) -> None:
    record = block(1, age_ms=-3_600_000)
    start_worker("one")
    await append(redis, [record])
    await until(lambda: has_tagged(redis, 1))
    assert 0 < await redis.pttl(marker(record)) <= HASTY.max_age_ms


def further_on(record: DraftRecord) -> DraftRecord:
    return dataclasses.replace(record, base_length=record.base_length + 1)


async def has_tags(redis: Redis, count: int) -> bool:
    return len(await tags(redis)) == count


async def counted_to(name: str, value: float) -> bool:
    return counted(name) == value


async def is_gone(redis: Redis, key: str) -> bool:
    return not await redis.exists(key)
