"""The engine by itself: rounds, batches, and what a source or a reader may do to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from common.draft_types import Block, Close, Proposed, Refused, SessionAnswer
from draft_service.engine import DraftEngine, Stream
from draft_service.session import Session
from draft_service.sources.base import NOTHING, Guess
from tests.unit.draft.fakes import (
    PATIENCE_SECONDS,
    RecordingPublisher,
    ScriptedSource,
    as_many_as_wanted,
    drafting,
)
from tests.unit.draft.sessions import commitment, opening


@pytest.fixture
def source() -> ScriptedSource:
    return ScriptedSource()


@pytest.fixture
async def engine(source: ScriptedSource) -> AsyncIterator[DraftEngine]:
    async with drafting(source) as made:
        yield made


async def message(stream: Stream) -> list[SessionAnswer]:
    """The next message; none at the end of the stream."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await anext(aiter(stream), [])


async def block(stream: Stream) -> Block:
    (answer,) = await message(stream)
    assert isinstance(answer, Proposed)
    return answer.block


async def test_sessions_of_one_message_are_drafted_in_one_call_and_answered_in_one_message(
    engine: DraftEngine, source: ScriptedSource
) -> None:
    stream = engine.connect()
    await engine.take(stream, [opening(name) for name in "abc"])
    assert [answer.session_id for answer in await message(stream)] == ["a", "b", "c"]
    assert source.rounds == [["a", "b", "c"]]


async def test_updates_that_came_during_a_round_are_drafted_together_in_the_next(
    engine: DraftEngine, source: ScriptedSource
) -> None:
    stream = engine.connect()
    source.gate.clear()
    await engine.take(stream, [opening("a")])
    await source.entered()
    for name in "bcd":
        await engine.take(stream, [opening(name)])
    source.gate.set()
    assert [len(await message(stream)) for _ in range(2)] == [1, 3]
    assert source.rounds == [["a"], ["b", "c", "d"]]


async def test_a_commit_that_came_during_a_round_is_drafted_from_afterwards(
    engine: DraftEngine, source: ScriptedSource
) -> None:
    stream = engine.connect()
    source.gate.clear()
    await engine.take(stream, [opening(tokens=[1, 2, 3])])
    await source.entered()
    await engine.take(stream, [commitment(base_length=3, tokens=[9], block_size=2)])
    source.gate.set()
    first, second = await block(stream), await block(stream)
    assert (first.base_length, first.token_ids) == (3, (4, 5, 6, 7))
    assert (second.base_length, second.token_ids) == (4, (10, 11))


async def test_sessions_of_several_streams_share_a_round_and_are_answered_on_their_own(
    engine: DraftEngine, source: ScriptedSource
) -> None:
    one, other = engine.connect(), engine.connect()
    source.gate.clear()
    await engine.take(one, [opening("a")])
    await source.entered()
    await engine.take(other, [opening("b")])
    await engine.take(one, [opening("c")])
    source.gate.set()
    await message(one)
    assert [answer.session_id for answer in await message(one)] == ["c"]
    assert [answer.session_id for answer in await message(other)] == ["b"]
    assert source.rounds[1] == ["b", "c"]


async def test_a_session_that_wants_no_guesses_is_not_drafted(
    engine: DraftEngine, source: ScriptedSource
) -> None:
    stream = engine.connect()
    await engine.take(stream, [opening("idle", block_size=0), opening("a")])
    assert [answer.session_id for answer in await message(stream)] == ["a"]
    assert source.rounds == [["a"]]


async def test_a_session_that_is_not_ready_stays_and_holds_up_no_other(
    engine: DraftEngine, source: ScriptedSource
) -> None:
    def slow_at_first(sessions: Sequence[Session]) -> list[Guess | None]:
        ready = len(source.rounds) >= 3
        guesses = as_many_as_wanted(sessions)
        return [
            g if ready or s.session_id != "slow" else None for s, g in zip(sessions, guesses, strict=True)
        ]

    source.script = slow_at_first
    stream = engine.connect()
    await engine.take(stream, [opening("slow"), opening("quick")])
    assert [(await message(stream))[0].session_id for _ in range(2)] == ["quick", "slow"]
    assert source.rounds == [["slow", "quick"], ["slow"], ["slow"]]


async def test_nothing_to_propose_is_answered_with_an_empty_block(
    engine: DraftEngine, source: ScriptedSource
) -> None:
    source.script = lambda sessions: [NOTHING] * len(sessions)
    stream = engine.connect()
    await engine.take(stream, [opening()])
    assert (await block(stream)).token_ids == ()


async def test_a_source_that_raises_costs_its_round_only(engine: DraftEngine, source: ScriptedSource) -> None:
    def fail(_: Sequence[Session]) -> list[Guess | None]:
        raise RuntimeError("out of luck")

    stream = engine.connect()
    source.script = fail
    await engine.take(stream, [opening("a"), opening("b")])
    for answer in await message(stream):
        assert isinstance(answer, Proposed)
        assert answer.block.token_ids == ()
    source.script = as_many_as_wanted
    await engine.take(stream, [commitment("a", tokens=[9])])
    assert (await block(stream)).token_ids == (10, 11, 12, 13)


async def test_a_source_that_answers_for_too_few_sessions_costs_its_round_only(
    engine: DraftEngine, source: ScriptedSource
) -> None:
    stream = engine.connect()
    source.script = lambda sessions: as_many_as_wanted(sessions)[:1]
    await engine.take(stream, [opening("a"), opening("b")])
    answered = {answer.session_id for answer in await message(stream)}
    if answered != {"a", "b"}:
        answered |= {answer.session_id for answer in await message(stream)}
    assert answered == {"a", "b"}


async def test_no_two_blocks_have_the_same_number_and_none_has_zero(engine: DraftEngine) -> None:
    stream = engine.connect()
    await engine.take(stream, [opening(name) for name in "abcdef"])
    numbers = [a.block.block_id for a in await message(stream) if isinstance(a, Proposed)]
    assert len(set(numbers)) == 6
    assert all(0 < number < 2**64 for number in numbers)


async def test_the_source_forgets_a_session_that_is_closed(
    engine: DraftEngine, source: ScriptedSource
) -> None:
    stream = engine.connect()
    await engine.take(stream, [opening("a")])
    await message(stream)
    await engine.take(stream, [Close("a"), opening("b")])
    await message(stream)
    assert source.closed == ["a"]
    assert engine.num_sessions == 1


async def test_a_session_opened_again_starts_from_the_new_tokens(
    engine: DraftEngine, source: ScriptedSource
) -> None:
    stream = engine.connect()
    await engine.take(stream, [opening(tokens=[1, 2, 3])])
    await message(stream)
    await engine.take(stream, [opening(tokens=[20, 30])])
    again = await block(stream)
    assert (again.base_length, again.token_ids) == (2, (31, 32, 33, 34))
    assert source.closed == ["s"]
    assert engine.num_sessions == 1


async def test_a_session_is_closed_during_a_round_without_harm(
    engine: DraftEngine, source: ScriptedSource
) -> None:
    stream = engine.connect()
    source.gate.clear()
    await engine.take(stream, [opening("a")])
    await source.entered()
    await engine.take(stream, [Close("a"), opening("b")])
    assert source.closed == []
    source.gate.set()
    assert [(await message(stream))[0].session_id for _ in range(2)] == ["a", "b"]
    assert source.closed == ["a"]


async def test_a_session_of_a_released_stream_is_not_opened_any_more(engine: DraftEngine) -> None:
    gone, stream = engine.connect(), engine.connect()
    gone.end()
    await engine.take(gone, [opening("late")])
    await engine.take(stream, [opening("a")])
    await message(stream)
    assert engine.num_sessions == 1


async def test_releasing_a_stream_closes_its_sessions_and_no_other(
    engine: DraftEngine, source: ScriptedSource
) -> None:
    one, other = engine.connect(), engine.connect()
    await engine.take(one, [opening("a"), opening("b")])
    await engine.take(other, [opening("c")])
    await message(other)
    await engine.release(one)
    await engine.take(other, [commitment("c", tokens=[1])])
    await message(other)
    assert sorted(source.closed) == ["a", "b"]
    assert engine.num_sessions == 1


async def test_a_reader_that_stops_reading_is_cut_off_and_can_still_read_what_is_queued() -> None:
    stream = Stream()
    puts = 0
    while not stream.ended:
        stream.put([Refused("s", "code", str(puts))])
        puts += 1
        assert puts < 100_000
    stream.put([Refused("s", "code", "after the end")])
    read = [answers async for answers in stream]
    assert read == [[Refused("s", "code", str(number))] for number in range(len(read))]
    assert len(read) == puts - 1


async def test_draining_waits_for_the_last_session_and_then_ends_the_streams(engine: DraftEngine) -> None:
    stream = engine.connect()
    await engine.take(stream, [opening("a")])
    await message(stream)
    draining = asyncio.create_task(engine.drain(PATIENCE_SECONDS))
    await asyncio.sleep(0.02)
    assert not draining.done()
    await engine.take(stream, [commitment("a", tokens=[5])])
    assert (await block(stream)).base_length == 4
    await engine.take(stream, [Close("a")])
    await draining
    assert await message(stream) == []


async def test_draining_ends_the_streams_of_sessions_that_outlast_it(engine: DraftEngine) -> None:
    stream = engine.connect()
    await engine.take(stream, [opening("a")])
    await message(stream)
    await engine.drain(0.02)
    assert await message(stream) == []


async def test_draining_with_nothing_open_ends_the_streams_at_once(engine: DraftEngine) -> None:
    stream = engine.connect()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await engine.drain(100 * PATIENCE_SECONDS)
    assert await message(stream) == []


async def test_blocks_are_published_for_the_sessions_that_ask_for_it_when_they_hold_guesses(
    source: ScriptedSource,
) -> None:
    def none_for_c(sessions: Sequence[Session]) -> list[Guess | None]:
        guesses = as_many_as_wanted(sessions)
        return [NOTHING if s.session_id == "c" else g for s, g in zip(sessions, guesses, strict=True)]

    source.script = none_for_c
    publisher = RecordingPublisher()
    async with drafting(source, publisher=publisher) as engine:
        stream = engine.connect()
        opens = [opening("a", publish=True), opening("b"), opening("c", publish=True)]
        await engine.take(stream, opens)
        answers = await message(stream)
    first = answers[0]
    assert isinstance(first, Proposed)
    assert publisher.published == [("a", first.block)]
