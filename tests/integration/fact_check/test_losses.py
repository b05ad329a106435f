"""What no worker can answer is given up, and what the cap removed is known: nothing is lost in silence."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import cast

import pytest
from redis.asyncio import Redis

from common import streams
from fact_check_service import group
from fact_check_service.checks.base import Context, Finding
from fact_check_service.group import DEAD, Fields, Group
from tests.integration.fact_check.conftest import HASTY, StartWorker
from tests.integration.fact_check.support import (
    append,
    block,
    counted,
    has_tagged,
    lag_is,
    nothing_pending,
    pending,
    tagged,
    until,
)


class Deadly:
    """A checker that hangs on one text: the worker is then killed."""

    def __init__(self) -> None:
        self.hangs = asyncio.Event()

    async def check(self, context: Context) -> Sequence[Finding]:
        if "poison" in context.text:
            self.hangs.set()
            await asyncio.Event().wait()
        return ()


async def die_of_it(redis: Redis, start_worker: StartWorker, times: int) -> None:
    """Let so many workers, one after the other, be killed by the poisonous entry."""
    for life in range(times):
        deadly = Deadly()
        working = start_worker(f"mortal-{life}", deadly, batch_size=20, claim_idle_ms=150)
        await asyncio.wait_for(deadly.hangs.wait(), 5)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def test_after_five_deliveries_an_entry_goes_to_the_dead_letters(
    redis: Redis, start_worker: StartWorker
) -> None:
    dead_letters = counted("dead_letters_total")
    await append(redis, [block(7, " poison")])
    await die_of_it(redis, start_worker, 5)
    assert await pending(redis) == 1
    assert await dead(redis) == []
    start_worker("survivor", Deadly(), batch_size=20, claim_idle_ms=150)
    await until(lambda: nothing_pending(redis))
    (letter,) = await dead(redis)
    assert streams.decode_draft({b"payload": letter[b"payload"]}).block_id == 7
    assert letter[b"reason"] == b"delivered 5 times without an answer"
    assert letter[b"id"].split(b"-")[1].isdigit()
    assert counted("dead_letters_total") == dead_letters + 1
    assert await tagged(redis) == {}


async def test_entries_beside_a_deadly_one_are_answered(redis: Redis, start_worker: StartWorker) -> None:
    texts = [" poison" if number == 3 else " 100 °C" for number in range(12)]
    await append(redis, (block(number, text) for number, text in enumerate(texts)))
    await die_of_it(redis, start_worker, 5)
    start_worker("survivor", Deadly(), batch_size=20, claim_idle_ms=150)
    await until(lambda: nothing_pending(redis))
    assert await tagged(redis) == {number: 1 for number in range(12) if number != 3}
    assert len(await dead(redis)) == 1


async def test_the_dead_letters_are_capped(
    redis: Redis, start_worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "DEAD_CAP", 100)
    monkeypatch.setattr(group, "MAX_DELIVERIES", 1)
    await redis.xgroup_create(streams.DRAFTS, streams.FACT_CHECK_GROUP, id="0", mkstream=True)
    await append(redis, map(block, range(400)))
    await redis.xreadgroup(streams.FACT_CHECK_GROUP, "died", {streams.DRAFTS: ">"}, count=400)
    start_worker("survivor", Deadly(), batch_size=20, claim_idle_ms=200)
    await until(lambda: nothing_pending(redis))
    assert 100 <= await redis.xlen(DEAD) <= 200


async def test_entries_that_the_cap_removed_unread_are_counted_once(
    redis: Redis, start_worker: StartWorker
) -> None:
    trimmed = counted("trimmed_total", when="unread")
    deadly = Deadly()
    working = start_worker("one", deadly)
    await append(redis, [block(0, " poison")])
    await deadly.hangs.wait()
    await append(redis, map(block, range(1, 101)))
    await redis.xtrim(streams.DRAFTS, maxlen=40, approximate=False)
    working.cancel()
    start_worker("two")
    start_worker("three")
    await until(lambda: has_tagged(redis, 40))
    assert counted("trimmed_total", when="unread") == trimmed + 60
    await append(redis, map(block, range(200, 210)))
    await until(lambda: has_tagged(redis, 50))
    assert counted("trimmed_total", when="unread") == trimmed + 60
    await until(lambda: lag_is(0))


async def test_the_lag_never_exceeds_what_is_left_of_the_stream(redis: Redis) -> None:
    group = Group(redis, dataclasses.replace(HASTY, batch_size=1))
    await group.ensure()
    await append(redis, map(block, range(101)))
    assert len(await group.read()) == 1
    await redis.xtrim(streams.DRAFTS, maxlen=40, approximate=False)
    await group.measure_lag()
    assert counted("lag") == 41


async def test_what_was_trimmed_before_there_was_a_group_is_no_loss(
    redis: Redis, start_worker: StartWorker
) -> None:
    trimmed = counted("trimmed_total", when="unread")
    await append(redis, map(block, range(50)))
    await redis.xtrim(streams.DRAFTS, maxlen=10, approximate=False)
    start_worker("one", batch_size=3)
    await until(lambda: has_tagged(redis, 10))
    assert counted("trimmed_total", when="unread") == trimmed


async def test_pending_entries_that_the_cap_removed_are_counted(
    redis: Redis, start_worker: StartWorker
) -> None:
    trimmed = counted("trimmed_total", when="pending")
    deadly = Deadly()
    working = start_worker("one", deadly)
    await append(redis, [block(0, " poison"), *map(block, range(1, 30))])
    await deadly.hangs.wait()
    working.cancel()
    held = await pending(redis)
    await redis.xtrim(streams.DRAFTS, maxlen=0, approximate=False)
    start_worker("two")
    await until(lambda: nothing_pending(redis))
    assert counted("trimmed_total", when="pending") == trimmed + held > trimmed


async def dead(redis: Redis) -> list[Fields]:
    return [fields for _, fields in cast(list[tuple[bytes, Fields]], await redis.xrange(DEAD))]
