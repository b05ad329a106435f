from __future__ import annotations

import asyncio
import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.typing import EncodableT, FieldT

from common import streams
from fact_check_service import metrics
from fact_check_service.checks.base import Context, Finding, Judge
from fact_check_service.checks.checker import Checker
from fact_check_service.checks.rules import RuleCheck
from tests.integration.fact_check.conftest import HASTY, RULES, StartWorker, work
from tests.integration.fact_check.support import (
    WRONG,
    append,
    block,
    counted,
    has_group,
    has_tagged,
    lag_is,
    nothing_pending,
    pending,
    tagged,
    tags,
    until,
)
from tests.support.valkey import Valkey


class Stuck:
    """A checker that hangs once it was given ``healthy`` texts: its worker dies in mid-batch."""

    def __init__(self, healthy: int) -> None:
        self._left = healthy
        self._rules = Checker([RuleCheck(RULES)], 5.0)
        self.reached = asyncio.Event()

    async def check(self, context: Context) -> Sequence[Finding]:
        if self._left == 0:
            self.reached.set()
            await asyncio.Event().wait()
        self._left -= 1
        return await self._rules.check(context)


class Failing:
    """A checker with a fault that some texts bring out."""

    async def check(self, context: Context) -> Sequence[Finding]:
        if "poison" in context.text:
            raise ZeroDivisionError
        return ()


async def kill(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_each_of_many_blocks_gets_its_verdict_once(redis: Redis, start_worker: StartWorker) -> None:
    start_worker("one")
    start_worker("two")
    await append(redis, (block(number, WRONG if number % 5 == 0 else " 100 °C") for number in range(500)))
    await until(lambda: has_tagged(redis, 500))
    await until(lambda: nothing_pending(redis))
    assert await tagged(redis) == dict.fromkeys(range(500), 1)
    for tag in await tags(redis):
        assert tag.session_id == f"session-{tag.block_id % 7}"
        assert [flag.rule for flag in tag.flags] == ["water-boiling-point"] * (tag.block_id % 5 == 0)


async def test_blocks_drafted_before_the_group_exists_are_checked(
    redis: Redis, start_worker: StartWorker
) -> None:
    await append(redis, map(block, range(10)))
    start_worker("one")
    await until(lambda: has_tagged(redis, 10))


async def test_what_a_worker_killed_in_mid_batch_left_is_taken_over(
    redis: Redis, start_worker: StartWorker
) -> None:
    claimed = counted("claimed_total")
    stuck = Stuck(healthy=5)
    first = start_worker("first", stuck)
    await append(redis, map(block, range(50)))
    await stuck.reached.wait()
    await kill(first)
    assert await pending(redis) > 0
    start_worker("second")
    await until(lambda: has_tagged(redis, 50))
    await until(lambda: nothing_pending(redis))
    assert counted("claimed_total") > claimed


async def test_more_left_entries_than_a_batch_are_all_taken_over(
    redis: Redis, start_worker: StartWorker
) -> None:
    stuck = Stuck(healthy=0)
    first = start_worker("first", stuck, batch_size=40)
    await append(redis, map(block, range(40)))
    await stuck.reached.wait()
    await kill(first)
    start_worker("second", batch_size=7)
    await until(lambda: has_tagged(redis, 40))


async def test_the_worker_goes_on_after_valkey_was_killed_and_came_back_empty(
    valkey: Valkey, redis: Redis, start_worker: StartWorker
) -> None:
    worker = start_worker("one")
    await append(redis, map(block, range(20)))
    await until(lambda: has_tagged(redis, 20))
    await valkey.kill()
    await asyncio.sleep(0.3)
    assert not worker.done()
    await valkey.restart()
    await append(redis, map(block, range(100, 120)))
    await until(lambda: has_tagged(redis, 20))
    assert set(await tagged(redis)) == set(range(100, 120))


async def test_the_worker_waits_for_a_valkey_that_is_not_there_yet(
    valkey: Valkey, redis: Redis, start_worker: StartWorker
) -> None:
    await valkey.kill()
    start_worker("one")
    await asyncio.sleep(0.2)
    await valkey.restart()
    await append(redis, [block(1)])
    await until(lambda: has_tagged(redis, 1))


async def test_the_group_is_created_again_after_a_flush(redis: Redis, start_worker: StartWorker) -> None:
    start_worker("one")
    for round_number in range(3):
        await append(redis, [block(round_number)])
        await until(lambda: has_tagged(redis, 1))
        await redis.flushall()


async def test_the_group_is_created_again_before_the_next_draft(
    redis: Redis, start_worker: StartWorker
) -> None:
    start_worker("one")
    for _ in range(5):
        await until(lambda: has_group(redis), seconds=1)
        await redis.flushall()


async def test_entries_that_the_cap_removed_while_pending_are_forgotten(
    redis: Redis, start_worker: StartWorker
) -> None:
    stuck = Stuck(healthy=0)
    first = start_worker("first", stuck)
    await append(redis, map(block, range(30)))
    await stuck.reached.wait()
    await kill(first)
    await redis.xtrim(streams.DRAFTS, maxlen=10, approximate=False)
    start_worker("second")
    await until(lambda: has_tagged(redis, 10))
    await until(lambda: nothing_pending(redis))


@pytest.mark.parametrize("key", [streams.DRAFTS, streams.TAGS])
async def test_a_key_of_another_type_does_not_end_the_worker(
    redis: Redis, start_worker: StartWorker, key: str
) -> None:
    await redis.set(key, "in the way")
    worker = start_worker("one")
    await append(redis, [block(1)] if key == streams.TAGS else [])
    await asyncio.sleep(0.2)
    assert not worker.done()
    await redis.delete(key)
    await append(redis, [block(2)])
    await until(lambda: has_tagged(redis, 1))


def payload(**changes: Any) -> bytes:
    return json.dumps(json.loads(streams.encode(block(1))[b"payload"]) | changes).encode()


MALFORMED: list[dict[FieldT, EncodableT]] = [
    {b"other": b"field"},
    {b"payload": b""},
    {b"payload": b"\xff\xfe"},
    {b"payload": b"[" * 100_000},
    {b"payload": b"null"},
    {b"payload": b"[]"},
    {b"payload": payload(token_ends=[5, 3])},
    {b"payload": payload(token_ends=[10_000])},
    {b"payload": payload(token_ends=[float("inf")])},
    {b"payload": payload(text=7)},
    {b"payload": payload(block_start=-1)},
    {b"payload": payload(surplus=1)},
    {b"payload": payload(session_id="\ud800")},
]


async def test_malformed_entries_are_counted_and_acknowledged(
    redis: Redis, start_worker: StartWorker
) -> None:
    malformed = counted("malformed_total")
    start_worker("one")
    for fields in MALFORMED:
        await redis.xadd(streams.DRAFTS, fields)
    await append(redis, [block(1)])
    await until(lambda: has_tagged(redis, 1))
    await until(lambda: nothing_pending(redis))
    assert counted("malformed_total") - malformed == len(MALFORMED)


async def test_an_entry_that_brings_out_a_fault_does_not_hold_up_the_others(
    redis: Redis, start_worker: StartWorker
) -> None:
    checker: Judge = Failing()
    start_worker("one", checker)
    await append(redis, [block(1), block(2, " poison"), block(3)])
    await until(lambda: has_tagged(redis, 2))
    await until(lambda: nothing_pending(redis))


async def test_the_tags_are_capped(
    redis: Redis, start_worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "TAGS_CAP", 200)
    start_worker("one")
    await append(redis, map(block, range(1_500)))
    await until(lambda: nothing_pending_and_read(redis, 1_500))
    # Valkey trims whole nodes of 100 entries.
    assert 200 <= await redis.xlen(streams.TAGS) <= 300


async def nothing_pending_and_read(redis: Redis, count: int) -> bool:
    groups = await redis.xinfo_groups(streams.DRAFTS)
    return [(group["entries-read"], group["pending"]) for group in groups] == [(count, 0)]


async def test_the_lag_counts_what_is_not_delivered_and_what_is_pending(
    redis: Redis, start_worker: StartWorker
) -> None:
    metrics.LAG.set(math.nan)
    first, second = Stuck(healthy=0), Stuck(healthy=0)
    holding_many = start_worker("first", first)
    await until(lambda: lag_is(0))
    await append(redis, map(block, range(100)))
    await first.reached.wait()
    holding_one = start_worker("second", second, batch_size=1)
    await until(lambda: lag_is(100))
    await second.reached.wait()
    await kill(holding_many)
    await kill(holding_one)


async def test_a_worker_that_leaves_takes_its_name_off_the_group(valkey: Valkey, redis: Redis) -> None:
    stop = asyncio.Event()
    config = dataclasses.replace(HASTY, redis_url=valkey.url)
    working = asyncio.create_task(work(config, Checker([RuleCheck(RULES)], 5.0), stop))
    await append(redis, [block(1)])
    await until(lambda: has_tagged(redis, 1))
    stop.set()
    await working
    assert await redis.xinfo_consumers(streams.DRAFTS, streams.FACT_CHECK_GROUP) == []


async def test_a_worker_that_was_killed_keeps_its_pending_entries_for_others(
    redis: Redis, start_worker: StartWorker
) -> None:
    stuck = Stuck(healthy=0)
    first = start_worker("first", stuck)
    await append(redis, [block(1)])
    await stuck.reached.wait()
    await kill(first)
    assert await pending(redis) == 1
