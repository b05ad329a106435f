"""Blocks that are stale, invalid, or not what their draft says."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from common.draft_types import Block, Close, Proposed, Refused
from common.types import Mode, SamplingParams
from tests.support.scripted import DraftSession, never, sampled
from tests.unit.verify.hub_bench import PROMPT, VOCABULARY, Bench, counts_up, seconds, updates
from tests.unit.verify.support import counting, hashed_target, make_sequence, sample


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"base_length": 2}, id="behind"),
        pytest.param({"base_length": 4}, id="ahead"),
        pytest.param({"base_length": 2**32 - 1}, id="absurd"),
    ],
)
async def test_a_stale_block_is_counted_and_never_verified(change: dict[str, int]) -> None:
    bench = Bench({"a": lambda session: replace(counts_up(session), **change)})  # type: ignore[arg-type]
    sequence = make_sequence(PROMPT, "a")
    with counting("tandem_draft_blocks_total", outcome="stale") as stale:
        assert await bench.opened(sequence) is None
    assert stale.by == 1
    assert bench.hub.take(sequence) is None


async def test_a_block_overtaken_by_plain_decoding_is_stale() -> None:
    bench = Bench({"a": counts_up})
    sequence = make_sequence(PROMPT, "a")
    assert await bench.opened(sequence)
    sequence.tokens.append(9)
    with counting("tandem_draft_blocks_total", outcome="stale") as stale:
        bench.hub.commit(sequence, 3, None, ())
    assert stale.by == 1
    assert bench.hub.peek(sequence) is None


async def test_a_second_block_for_the_same_question_is_stale() -> None:
    bench = Bench({"a": counts_up})
    sequence = make_sequence(PROMPT, "a")
    first = await bench.opened(sequence)
    with counting("tandem_draft_blocks_total", outcome="stale") as stale:
        bench.link().answer(Proposed("session", Block(77, 3, (6,))))
    assert stale.by == 1
    assert bench.hub.peek(sequence) is first


async def test_an_answer_for_a_session_that_is_not_on_this_link_is_counted_and_ignored() -> None:
    bench = Bench({"a": never, "b": never})
    ours = make_sequence(PROMPT, "a")
    await bench.opened(ours)
    await bench.opened(make_sequence(PROMPT, "b", session_id="other"))
    with counting("tandem_draft_blocks_total", outcome="unknown_session") as unknown:
        bench.link("b").answer(Proposed("session", Block(1, 3, (5,))), Refused("session", "overloaded", ""))
        bench.link("a").answer(Proposed("nobody", Block(1, 3, (5,))))
    assert unknown.by == 3
    assert bench.hub.peek(ours) is None


@pytest.mark.parametrize(
    "token_ids", [[VOCABULARY], [5, 2**32 - 1], [5] * 5, [5] * 1000], ids=["id", "huge id", "long", "longer"]
)
async def test_an_invalid_block_is_counted_never_verified_and_its_draft_paused(token_ids: list[int]) -> None:
    bench = Bench({"a": lambda session: session.block(token_ids), "b": counts_up})
    sequence = make_sequence(PROMPT, "a", "b")
    with counting("tandem_draft_blocks_total", outcome="invalid") as invalid:
        assert await bench.opened(sequence) is None
    assert invalid.by == 1
    assert updates(bench.link(), Close)
    assert not bench.link().breaker.closed
    block = await bench.opened(sequence)
    assert block
    assert block.source == "pool-b"


async def test_an_empty_block_means_nothing_to_propose() -> None:
    bench = Bench({"a": lambda session: session.block([])})
    sequence = make_sequence(PROMPT, "a")
    with counting("tandem_draft_blocks_total", outcome="empty") as empty:
        await bench.opened(sequence)
    assert empty.by == 1
    assert bench.hub.take(sequence) is None
    bench.step(sequence)
    assert await seconds(bench, sequence) < 0.5
    assert bench.link().breaker.closed


async def test_what_a_draft_calls_itself_is_replaced_by_its_pools_name() -> None:
    bench = Bench({"a": counts_up})
    block = await bench.opened(make_sequence(PROMPT, "a"))
    assert block
    assert block.source == "pool-a"


async def test_a_distribution_the_guesses_were_not_drawn_from_is_not_used() -> None:
    target = hashed_target(VOCABULARY)

    def argmax(session: DraftSession) -> Block:
        honest = sampled(target)(session)
        assert isinstance(honest, Block)
        likeliest = [d.token_ids[d.probabilities.index(max(d.probabilities))] for d in honest.distributions]
        return replace(honest, token_ids=tuple(likeliest))

    for propose, mismatches in ((sampled(target), 0), (argmax, 1)):
        bench = Bench({"a": propose})
        hot = SamplingParams(temperature=2)
        sequence = make_sequence(PROMPT, "a", mode=Mode.REJECTION, sampling=hot, block_size=8)
        with counting("tandem_draft_blocks_total", outcome="q_mismatch") as counted:
            block = await bench.opened(sequence)
        assert block
        assert counted.by == mismatches
        assert bool(block.distributions) is (not mismatches)
        assert len(block.token_ids) == 8


@pytest.mark.parametrize("drafting_seconds", [-1.0, math.inf, math.nan])
async def test_a_drafting_time_that_is_no_time_does_not_spoil_the_metric(drafting_seconds: float) -> None:
    bench = Bench({"a": lambda session: replace(counts_up(session), drafting_seconds=drafting_seconds)})
    before = sample("tandem_draft_drafting_seconds_sum")
    await bench.opened(make_sequence(PROMPT, "a"))
    # One bad sample would poison the sum of this process for good, so judge it before other tests do.
    after = sample("tandem_draft_drafting_seconds_sum")
    assert math.isfinite(after)
    assert after >= before
