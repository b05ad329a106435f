"""What is drafted for the time after a verdict, and what becomes of it when the verdict is there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from common.draft_types import Block, Proposed, Refused
from draft_service.ahead import Ahead, Question
from draft_service.engine import Stream
from draft_service.session import Session
from draft_service.sources.base import Guess
from tests.unit.draft.fakes import PATIENCE_SECONDS, VOCABULARY, ScriptedSource, drafting
from tests.unit.draft.sessions import commitment, opening

LENGTH = 3
SURE = Block(1, LENGTH, (11, 12), confidences=(0.9, 0.8))
UNSURE = Block(1, LENGTH, (11, 12), confidences=(0.3, 0.1))


def judging(block: Block, most: int = 4, size: int = 2) -> Ahead:
    ahead = Ahead()
    ahead.allow(most, size, 1)
    ahead.judged(block)
    return ahead


def told(token_id: int, confidence: float = 0.5) -> Block:
    return Block(99, LENGTH, (token_id,), confidences=(confidence,))


def block(number: int, assumed: Sequence[int], guesses: Sequence[int] = (7, 8)) -> Block:
    return Block(
        number, LENGTH + len(assumed), tuple(guesses), confidences=(0.9, 0.8), assumed=tuple(assumed)
    )


def test_a_sure_draft_asks_first_what_follows_when_all_guesses_stand() -> None:
    assert judging(SURE).question() == Question((11, 12), 1, 1, depth=1)


def test_an_unsure_draft_asks_first_what_comes_in_place_of_its_first_guess() -> None:
    assert judging(UNSURE).question() == Question((), 2, 2, depth=1)


def test_a_block_is_asked_for_after_the_token_that_was_told() -> None:
    ahead = judging(SURE)
    assert not ahead.answered(told(13))
    assert ahead.question() == Question((11, 12, 13), 2, 1)
    assert ahead.answered(block(2, (11, 12, 13)))


def test_in_place_of_a_guess_the_next_choice_is_assumed_and_not_that_guess_again() -> None:
    ahead = judging(UNSURE)
    assert not ahead.answered(Block(99, LENGTH, (11, 20), parents=(-1, -1), confidences=(0.3, 0.25)))
    assert ahead.question() == Question((20,), 2, 1)


def test_a_source_that_has_no_other_choice_costs_the_outcome_and_no_more() -> None:
    ahead = judging(UNSURE)
    assert not ahead.answered(told(11))
    assert ahead.question() == Question((11,), 2, 2, depth=1)
    assert not ahead.answered(None)
    assert ahead.question() == Question((11, 12), 1, 1, depth=1)
    assert not ahead.answered(None)
    assert ahead.question() is None


def test_the_block_for_what_came_about_is_found_and_the_rest_forgotten() -> None:
    ahead = judging(SURE)
    ahead.answered(told(13))
    ahead.answered(block(2, (11, 12, 13)))
    found = ahead.committed([11, 12, 13])
    assert found
    assert found.block == replace(block(2, (11, 12, 13)), assumed=())
    assert ahead.prepared == []
    assert ahead.question() == Question((7, 8), 1, 1, depth=1), "from that block it goes on"


def test_nothing_is_left_of_what_did_not_come_about() -> None:
    ahead = judging(SURE)
    ahead.answered(told(13))
    ahead.answered(block(2, (11, 12, 13)))
    assert ahead.committed([11, 40]) is None
    assert ahead.prepared == []
    assert ahead.question() is None


def test_blocks_further_ahead_stay_when_the_first_of_them_is_used() -> None:
    ahead = judging(SURE)
    ahead.answered(told(13))
    ahead.answered(block(2, (11, 12, 13)))
    while (question := ahead.question()) and question.assumed != (11, 12, 13, 7, 8):
        ahead.answered(None)
    ahead.answered(told(9, 1.0))
    ahead.answered(block(3, (11, 12, 13, 7, 8, 9)))
    assert ahead.committed([11, 12, 13])
    assert [prepared.block.assumed for prepared in ahead.prepared] == [(7, 8, 9)]
    assert ahead.committed([7, 8, 9])


def test_a_block_stays_while_the_text_is_on_its_way_to_what_it_assumes() -> None:
    """The target was given the first guess only, and said the second by itself."""
    ahead = judging(SURE)
    ahead.answered(told(13))
    ahead.answered(block(2, (11, 12, 13)))
    assert ahead.committed([11, 12]) is None
    found = ahead.committed([13])
    assert found
    assert found.block.block_id == 2


def test_no_more_blocks_wait_than_may() -> None:
    ahead = judging(SURE, most=1)
    ahead.answered(told(13))
    ahead.answered(block(2, (11, 12, 13)))
    assert ahead.question() is None
    ahead.allow(2, 2, 1)
    assert ahead.question()


def test_without_confidences_it_believes_what_it_has_seen() -> None:
    bare = replace(SURE, confidences=())
    right, wrong = Ahead(), Ahead()
    for ahead, stood in ((right, 20), (wrong, 0)):
        ahead.allow(4, 2, 1)
        for _ in range(20):
            ahead.learn(stood, fell=not stood)
        ahead.judged(bare)
    assert right.question() == Question((11, 12), 1, 1, depth=1)
    assert wrong.question() == Question((), 2, 2, depth=1)


def counting_on(sessions: Sequence[Session]) -> list[Guess | None]:
    """Sure of it, and has no other choice."""
    return [
        Guess(
            tuple((session.tokens[-1] + 1 + i) % VOCABULARY.size for i in range(session.longest)),
            confidences=(1.0,) * session.longest,
        )
        for session in sessions
    ]


async def blocks(stream: Stream, count: int) -> list[Block]:
    found: list[Block] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for answers in stream:
            found += [answer.block for answer in answers if isinstance(answer, Proposed)]
            if len(found) == count:
                return found
    raise AssertionError("the stream has ended")


async def test_the_engine_sends_blocks_ahead_and_goes_on_from_the_one_that_is_used() -> None:
    async with drafting(ScriptedSource(counting_on)) as engine:
        stream = engine.connect()
        await engine.take(stream, [replace(opening(block_size=2), ahead=1)])
        first, ahead = await blocks(stream, 2)
        assert (first.token_ids, first.assumed) == ((4, 5), ())
        assert (ahead.base_length, ahead.token_ids, ahead.assumed) == (6, (7, 8), (4, 5, 6))
        used = commitment(block_id=first.block_id, accepted=2, tokens=[6], block_size=2)
        await engine.take(stream, [replace(used, next_block_id=ahead.block_id, ahead=1)])
        (further,) = await blocks(stream, 1)
        assert (further.base_length, further.token_ids, further.assumed) == (9, (10, 11), (7, 8, 9))
        accepted = commitment(base_length=6, block_id=ahead.block_id, accepted=1, tokens=[40], block_size=2)
        await engine.take(stream, [accepted])
        (asked,) = await blocks(stream, 1)
        assert (asked.base_length, asked.token_ids, asked.assumed) == (8, (41, 42), ())


async def test_what_was_sent_ahead_is_sent_again_when_it_is_asked_for() -> None:
    """The question and the block may have passed each other on the wire."""
    async with drafting(source := ScriptedSource(counting_on)) as engine:
        stream = engine.connect()
        await engine.take(stream, [replace(opening(block_size=2), ahead=1)])
        first, ahead = await blocks(stream, 2)
        rounds = len(source.rounds)
        asked = commitment(block_id=first.block_id, accepted=2, tokens=[6], block_size=2)
        await engine.take(stream, [asked])
        (again,) = await blocks(stream, 1)
        assert again == replace(ahead, assumed=())
        assert len(source.rounds) == rounds


async def test_a_commit_that_goes_on_with_a_block_never_sent_is_out_of_sync() -> None:
    async with drafting(ScriptedSource(counting_on)) as engine:
        stream = engine.connect()
        await engine.take(stream, [replace(opening(block_size=2), ahead=1)])
        first, _ = await blocks(stream, 2)
        wrong = commitment(block_id=first.block_id, accepted=1, tokens=[40], block_size=2)
        await engine.take(stream, [replace(wrong, next_block_id=first.block_id + 1)])
        async with asyncio.timeout(PATIENCE_SECONDS):
            (refused,) = await anext(aiter(stream))
        assert isinstance(refused, Refused)
        assert refused.code == "out_of_sync"


@pytest.mark.parametrize("constraint", [{"grammar": "anything"}, {"held_tokens": {5: 2}}])
async def test_a_session_with_a_grammar_is_not_drafted_ahead(constraint: dict[str, object]) -> None:
    async with drafting(source := ScriptedSource(counting_on)) as engine:
        stream = engine.connect()
        await engine.take(stream, [replace(opening(block_size=2, **constraint), ahead=4)])  # type: ignore[arg-type]
        await blocks(stream, 1)
        await asyncio.sleep(0.02)
        assert len(source.rounds) == 1


async def test_a_source_that_fails_ahead_costs_the_block_and_not_the_session() -> None:
    def failing_ahead(sessions: Sequence[Session]) -> list[Guess | None]:
        if any(session.assumed for session in sessions):
            raise RuntimeError("no")
        return counting_on(sessions)

    async with drafting(ScriptedSource(failing_ahead)) as engine:
        stream = engine.connect()
        await engine.take(stream, [replace(opening(block_size=2), ahead=2)])
        (first,) = await blocks(stream, 1)
        await engine.take(stream, [commitment(block_id=first.block_id, accepted=2, tokens=[6], block_size=2)])
        (second,) = await blocks(stream, 1)
        assert second.token_ids == (7, 8)
