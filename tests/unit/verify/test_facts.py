"""Verdicts on drafted blocks: what they veto, what they annotate, and what they leave alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from common.draft_types import Block
from common.streams import LAST_BLOCK, Flag, TagRecord
from common.types import Annotation, FactCheck
from verify_service.facts import FactCheckSession

PROMPT = 4
BLOCK = Block(1, 10, (20, 21, 22, 23))


def flag(first: int, end: int, text: str = "1815") -> Flag:
    return Flag(first, end, text, "date", "it was 1816")


def tag(*flags: Flag, block: Block = BLOCK) -> TagRecord:
    return TagRecord("session", block.block_id, block.base_length, flags)


def session(*tags: TagRecord, mode: FactCheck = FactCheck.VETO) -> FactCheckSession:
    made = FactCheckSession(mode)
    for record in tags:
        made.add_tag(record)
    return made


def delivered(*token_ids: int, before: int = 10) -> list[int]:
    return [*range(100, 100 + before), *token_ids]


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        ((), (20, 21, 22, 23)),
        ((flag(0, 1),), ()),
        ((flag(2, 4),), (20, 21)),
        ((flag(3, 4), flag(1, 2)), (20,)),
        ((flag(4, 5),), (20, 21, 22, 23)),
    ],
)
def test_a_veto_keeps_what_comes_before_the_first_flag(
    flags: tuple[Flag, ...], kept: tuple[int, ...]
) -> None:
    assert session(tag(*flags)).veto(BLOCK).token_ids == kept


def test_a_block_without_its_verdict_is_not_trimmed() -> None:
    other = Block(2, 10, (20, 21))
    subject = session(tag(flag(0, 1), block=other))
    assert not subject.has_tag(BLOCK)
    assert subject.veto(BLOCK) is BLOCK
    assert subject.has_tag(other)


@pytest.mark.parametrize("first", ["block", "tag"])
def test_block_and_verdict_may_come_in_either_order(first: str) -> None:
    subject = session()
    for part in (first, "tag" if first == "block" else "block"):
        if part == "block":
            subject.add_block(BLOCK)
        else:
            subject.add_tag(tag(flag(1, 3)))
    assert subject.annotations(delivered(20, 21, 22), PROMPT) == (
        Annotation(7, 2, "1815", "contradicted", "date", "it was 1816"),
    )


@pytest.mark.parametrize(
    ("tokens", "annotated"),
    [
        pytest.param((20, 21, 22, 23), True, id="as drafted"),
        pytest.param((20, 21, 22), True, id="cut right after the claim"),
        pytest.param((20, 21), False, id="cut inside the claim"),
        pytest.param((20, 21, 99), False, id="last token differs"),
        pytest.param((20, 99, 22), False, id="first token differs"),
        pytest.param((99, 21, 22), True, id="only what comes before differs"),
    ],
)
def test_a_claim_is_annotated_exactly_when_it_was_delivered_word_for_word(
    tokens: Sequence[int], annotated: bool
) -> None:
    subject = session(tag(flag(1, 3)), mode=FactCheck.ANNOTATE)
    subject.add_block(BLOCK)
    assert bool(subject.annotations(delivered(*tokens), PROMPT)) is annotated


def test_a_claim_still_being_delivered_is_annotated_when_it_is_complete_and_once() -> None:
    subject = session(tag(flag(0, 4)))
    subject.add_block(BLOCK)
    assert subject.annotations(delivered(20, 21), PROMPT) == ()
    assert len(subject.annotations(delivered(20, 21, 22, 23), PROMPT)) == 1
    assert subject.annotations(delivered(20, 21, 22, 23, 24), PROMPT) == ()


def test_a_claim_drafted_again_in_a_later_block_is_annotated_once() -> None:
    subject = session()
    again = Block(2, 11, (21, 22, 23))
    for block, span in ((BLOCK, flag(1, 3)), (again, flag(0, 2))):
        subject.add_block(block)
        subject.add_tag(tag(span, block=block))
    assert len(subject.annotations(delivered(20, 21, 22, 23), PROMPT)) == 1


def test_a_claim_drafted_again_after_its_annotation_is_not_annotated_again() -> None:
    subject = session()
    subject.add_block(BLOCK)
    subject.add_tag(tag(flag(1, 3)))
    assert len(subject.annotations(delivered(20, 21, 22, 23), PROMPT)) == 1
    stale = Block(2, 11, (21, 22, 23))
    subject.add_block(stale)
    subject.add_tag(tag(flag(0, 2), block=stale))
    assert subject.annotations(delivered(20, 21, 22, 23), PROMPT) == ()


def test_several_flags_of_one_block_are_annotated_each() -> None:
    subject = session(tag(flag(0, 1, "a"), flag(2, 4, "b")))
    subject.add_block(BLOCK)
    annotations = subject.annotations(delivered(20, 21, 22, 23), PROMPT)
    assert [(a.text, a.first_token, a.token_count) for a in annotations] == [("a", 6, 1), ("b", 8, 2)]


@pytest.mark.parametrize("span", [(4, 6), (2, 2), (3, 1)])
def test_a_flag_that_covers_no_token_of_the_block_annotates_nothing(span: tuple[int, int]) -> None:
    subject = session(tag(flag(*span)))
    subject.add_block(BLOCK)
    assert subject.annotations(delivered(20, 21, 22, 23, 24, 25), PROMPT) == ()


def test_a_claim_that_the_target_wrote_is_annotated_when_the_next_verdict_says_so() -> None:
    subject = session(tag(flag(-3, -1)))
    subject.add_block(BLOCK)
    assert subject.veto(BLOCK) is BLOCK
    (annotation,) = subject.annotations(delivered(), PROMPT)
    assert (annotation.first_token, annotation.token_count) == (3, 2)


def test_a_claim_that_was_begun_before_the_block_is_annotated_whole_and_vetoed_from_the_block_on() -> None:
    subject = session(tag(flag(-2, 1)))
    subject.add_block(BLOCK)
    assert subject.veto(BLOCK).token_ids == ()
    assert subject.annotations(delivered(99), PROMPT) == (), "the target went on otherwise"
    subject = session(tag(flag(-2, 1)))
    subject.add_block(BLOCK)
    (annotation,) = subject.annotations(delivered(20), PROMPT)
    assert (annotation.first_token, annotation.token_count) == (4, 3)


def test_what_was_annotated_as_drafted_is_not_annotated_again_as_committed() -> None:
    subject = session(tag(flag(1, 3)))
    subject.add_block(BLOCK)
    assert len(subject.annotations(delivered(20, 21, 22), PROMPT)) == 1
    later = Block(2, 13, (30,))
    subject.add_block(later)
    subject.add_tag(tag(flag(-2, 0), block=later))
    assert subject.annotations(delivered(20, 21, 22), PROMPT) == ()


def test_nothing_of_the_prompt_is_annotated() -> None:
    subject = session(tag(flag(-9, -7)), tag(flag(-7, -5), block=Block(2, 10, (20,))))
    subject.add_block(BLOCK)
    subject.add_block(Block(2, 10, (20,)))
    (annotation,) = subject.annotations(delivered(), PROMPT)
    assert (annotation.first_token, annotation.token_count) == (0, 1)


async def test_the_end_of_an_answer_waits_for_its_last_verdict() -> None:
    subject = session(mode=FactCheck.ANNOTATE)
    subject.expect_last(12)
    settling = asyncio.create_task(subject.settle(5))
    await asyncio.sleep(0.01)
    assert not settling.done()
    subject.add_tag(TagRecord("session", LAST_BLOCK, 12, (flag(-2, 0),)))
    await settling
    assert len(subject.annotations(delivered(20, 21), PROMPT)) == 1


def test_a_verdict_is_late_once_its_block_was_decided_on() -> None:
    subject = session()
    subject.add_block(BLOCK)
    assert subject.add_tag(tag())
    late = Block(2, 14, (1,))
    subject.add_block(late)
    subject.decide(late)
    assert not subject.add_tag(tag(block=late))


@pytest.mark.parametrize("first", [-1, -3])
def test_a_flag_before_the_block_is_no_reason_to_trim_it_from_behind(first: int) -> None:
    subject = session(tag(flag(first, 2)))
    assert subject.veto(BLOCK).token_ids in {(), BLOCK.token_ids}


def test_memory_is_bounded_however_many_blocks_and_verdicts_never_meet() -> None:
    subject = session()
    for number in range(1000):
        subject.add_block(Block(number, 10, (1,)))
        subject.add_tag(TagRecord("session", 10_000 + number, 10, (flag(0, 1),)))
    assert sum(subject.has_tag(Block(10_000 + number, 10, (1,))) for number in range(1000)) == 64
    for number in range(1000):
        block = Block(20_000 + number, 5_000 + number, (1,))
        subject.add_block(block)
        subject.add_tag(tag(flag(0, 1), block=block))
    assert len(subject.annotations([1] * 10_000, PROMPT)) == 64


async def test_settle_waits_for_the_verdicts_still_out_and_no_longer() -> None:
    subject = session()
    started = time.monotonic()
    await subject.settle(5)
    subject.add_block(BLOCK)
    asyncio.get_running_loop().call_later(0.02, subject.add_tag, tag())
    await subject.settle(5)
    assert 0.01 < time.monotonic() - started < 1


async def test_settle_gives_up_after_its_time() -> None:
    subject = session()
    subject.add_block(BLOCK)
    started = time.monotonic()
    await subject.settle(0.05)
    assert 0.03 < time.monotonic() - started < 1
    await subject.settle(0)
