"""The autopilot between routers, and the switches, over a real Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from common import streams, switches
from common.errors import Unavailable
from common.feedback import FeedbackRecord
from common.switches import State
from router.autopilot.actions import Action, Kind
from router.autopilot.autopilot import Autopilot
from router.feedback import FeedbackReader
from router.pilot import Pilot
from router.store import LEADER, RETRAIN, Store, connect
from tests.support.valkey import Valkey, free_port, require_valkey
from tests.unit.router.autopilot.samples import record

PAIR = ("chat", "ngram")


@pytest.fixture
async def valkey() -> AsyncGenerator[Valkey, None]:
    require_valkey()
    async with Valkey() as server:
        yield server


@pytest.fixture
async def store(valkey: Valkey) -> AsyncGenerator[Store, None]:
    made = Store(connect(valkey.url))
    yield made
    await made.close()


def pilot(store: Store, acting: bool = True, told: list[Action] | None = None) -> Pilot:
    kept = [] if told is None else told
    return Pilot(
        store, Autopilot(lambda _: ("ngram",)), acting=acting, on_action=kept.append, clock=lambda: 1_000_000
    )


def feed(flying: Pilot, acceptance: float, count: int = 30) -> None:
    for _ in range(count):
        flying.autopilot.learn(record(acceptance=acceptance))


async def test_one_router_leads_and_the_others_do_as_it_decided(store: Store) -> None:
    told: list[Action] = []
    first, second = pilot(store, told=told), pilot(store)
    feed(first, 0.0)
    feed(second, 0.0)
    await first.tick()
    await second.tick()
    assert (first.leads, second.leads) == (True, False)
    assert [action.kind for action in told] == [Kind.PLAIN, Kind.RETRAIN]
    assert PAIR in first.steering.resting
    assert second.steering.resting == first.steering.resting


async def test_training_is_asked_for_on_a_stream(store: Store) -> None:
    flying = pilot(store)
    feed(flying, 0.0)
    await flying.tick()
    ((_, fields),) = await store.client.xrange(RETRAIN)
    assert fields[b"prompt_class"] == b"chat"
    assert fields[b"pool"] == b"ngram"
    assert b"useless" in fields[b"reason"]


async def test_a_restarted_router_goes_on_with_what_was_in_force(store: Store) -> None:
    flying = pilot(store)
    feed(flying, 0.0)
    await flying.tick()
    await store.client.delete(LEADER)
    again = pilot(store)
    await again.tick()
    assert again.leads
    assert PAIR in again.steering.resting


async def test_the_lead_goes_to_another_when_it_is_not_renewed(store: Store) -> None:
    first, second = pilot(store), pilot(store)
    await first.tick()
    await first.tick()
    assert first.leads
    await store.client.delete(LEADER)
    await second.tick()
    await first.tick()
    assert (first.leads, second.leads) == (False, True)


async def test_a_pilot_that_may_not_act_reads_switches_only(store: Store) -> None:
    flying = pilot(store, acting=False)
    feed(flying, 0.0)
    await store.set_switch("chat", State.OFF)
    await flying.tick()
    assert not flying.leads
    assert flying.steering.resting == {}
    assert flying.steering.state("chat") is State.OFF


async def test_a_switch_is_in_force_here_at_once_and_elsewhere_with_the_next_reading(store: Store) -> None:
    here, there = pilot(store), pilot(store)
    await here.switch("chat", State.SHADOW)
    assert here.steering.state("chat") is State.SHADOW
    await there.tick()
    assert there.steering.state("chat") is State.SHADOW
    assert there.steering.state("code") is State.ON


async def test_a_redis_that_lost_the_switches_gets_them_back(store: Store) -> None:
    flying = pilot(store)
    await flying.switch("all", State.OFF)
    await store.client.flushall()
    await flying.tick()
    assert flying.steering.state("chat") is State.OFF
    assert await store.client.hgetall(switches.KEY) == {b"all": b"off"}


async def test_without_redis_what_was_in_force_stays_and_nothing_is_decided(valkey: Valkey) -> None:
    store = Store(connect(valkey.url))
    flying = pilot(store)
    feed(flying, 0.0)
    await flying.tick()
    await flying.switch("code", State.OFF)
    await valkey.stop()
    flying.autopilot.learn(record("other", acceptance=0.0))
    await flying.tick()
    assert not flying.leads
    assert set(flying.steering.resting) == {PAIR}
    assert flying.steering.state("code") is State.OFF
    with pytest.raises(Unavailable):
        await flying.switch("code", State.ON)
    assert flying.steering.state("code") is State.OFF
    await store.close()


async def test_a_hand_undoes_what_is_in_force_for_all_routers(store: Store) -> None:
    first, second = pilot(store), pilot(store)
    feed(first, 0.0)
    await first.tick()
    action = await first.release("chat", "ngram")
    assert action is not None and action.kind is Kind.RELEASE
    await second.tick()
    assert second.steering.resting == {}
    assert await first.release("chat", "ngram") is None


async def append(store: Store, *records: FeedbackRecord) -> None:
    for each in records:
        await store.client.xadd(streams.FEEDBACK, streams.encode(each))


async def test_feedback_of_the_past_teaches_and_only_that_of_now_is_watched(store: Store) -> None:
    learned: list[FeedbackRecord] = []
    watched: list[FeedbackRecord] = []
    old, new = record("ngram"), record("model")
    await append(store, old)
    reader = FeedbackReader(store, [learned.append], [watched.append])
    await reader.read()
    await append(store, new)
    await reader.read()
    assert [each.drafts[0].pool for each in learned] == ["ngram", "model"]
    assert [each.drafts[0].pool for each in watched] == ["model"]


async def test_two_routers_learn_the_same(store: Store) -> None:
    await append(store, *(record(f"pool-{number % 3}", rate=100 + number) for number in range(30)))
    seen: list[list[FeedbackRecord]] = [[], []]
    for kept in seen:
        await FeedbackReader(store, [kept.append]).read()
    assert seen[0] == seen[1] and len(seen[0]) == 30


async def test_what_is_no_feedback_is_counted_and_passed_over(store: Store) -> None:
    learned: list[FeedbackRecord] = []
    await store.client.xadd(streams.FEEDBACK, {"payload": "{}"})
    await append(store, record())
    reader = FeedbackReader(store, [learned.append])
    await reader.read()
    assert (len(learned), reader.malformed) == (1, 1)


async def test_reading_goes_on_where_it_stopped_when_redis_comes_back(valkey: Valkey) -> None:
    learned: list[FeedbackRecord] = []
    store = Store(connect(valkey.url))
    reader = FeedbackReader(store, [learned.append])
    await append(store, record())
    running = asyncio.create_task(reader.run())
    async with asyncio.timeout(20):
        while len(learned) < 1:
            await asyncio.sleep(0.01)
        await valkey.kill()
        await asyncio.sleep(0.2)
        await valkey.restart()
        await append(store, record())
        while len(learned) < 2:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await store.close()


async def test_a_redis_that_is_not_there_raises_by_name() -> None:
    store = Store(connect(f"redis://127.0.0.1:{free_port()}/0"))
    with pytest.raises(Unavailable, match="Redis"):
        await store.switches()
    await store.close()
