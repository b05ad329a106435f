"""Blocks that come before it is known whether they are of use."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from common.draft_types import Block, Commit, Open, Proposed
from common.types import FactCheck
from tests.support.always_ahead import AlwaysAhead
from tests.unit.verify.hub_bench import PROMPT, Bench, counts_up, updates
from tests.unit.verify.support import counting, make_sequence
from verify_service.drafts.ahead import AheadPolicy
from verify_service.sequence import Sequence as VerifySequence

FIVES = (5, 5, 5, 5)


def bench(most: int = 2) -> Bench:
    return Bench({"a": counts_up}, ahead=AlwaysAhead(most))


def send_ahead(bench: Bench, assumed: Sequence[int], guesses: Sequence[int] = FIVES) -> Block:
    session = bench.link().sessions["session"]
    block = session.block(guesses)
    sent = replace(block, base_length=block.base_length + len(assumed), assumed=tuple(assumed))
    session.proposed[block.block_id] = sent
    bench.link().answer(Proposed("session", sent))
    return sent


async def judging(bench: Bench) -> VerifySequence:
    sequence = make_sequence(PROMPT, "a")
    assert await bench.opened(sequence)
    return sequence


async def test_the_draft_is_told_how_many_blocks_it_may_send() -> None:
    hub = bench(most=3)
    sequence = await judging(hub)
    hub.step(sequence, accepted=1)
    (opened,), (commit,) = updates(hub.link(), Open), updates(hub.link(), Commit)
    assert isinstance(opened, Open)
    assert isinstance(commit, Commit)
    assert (opened.ahead, commit.ahead, commit.next_block_id) == (3, 3, 0)


@pytest.mark.parametrize(("accepted", "outcome"), [(4, "full"), (2, "other")])
async def test_the_block_for_what_was_decided_is_verified_next_and_none_is_asked_for(
    accepted: int, outcome: str
) -> None:
    hub = bench()
    sequence = await judging(hub)
    sent = send_ahead(hub, [5] * accepted + [9], (6, 7))
    with counting("tandem_draft_ahead_total", outcome=outcome) as used:
        hub.step(sequence, accepted=accepted)
    assert used.by == 1
    (commit,) = updates(hub.link(), Commit)
    assert isinstance(commit, Commit)
    assert (commit.next_block_id, commit.accepted_nodes, commit.token_ids) == (
        sent.block_id,
        tuple(range(accepted)),
        (9,),
    )
    block = hub.hub.peek(sequence)
    assert block
    assert (block.token_ids, block.base_length) == ((6, 7), len(sequence.tokens))
    hub.step(sequence, accepted=1)
    assert sequence.tokens[-2:] == [6, 9]


async def test_a_block_for_something_else_is_of_no_use() -> None:
    hub = bench()
    sequence = await judging(hub)
    send_ahead(hub, [5, 5, 5, 5, 8])
    hub.step(sequence, accepted=4)
    (commit,) = updates(hub.link(), Commit)
    assert isinstance(commit, Commit)
    assert commit.next_block_id == 0
    with counting("tandem_draft_ahead_total", outcome="missed") as missed:
        await asyncio.sleep(0.005)
    assert missed.by == 1
    assert hub.hub.peek(sequence)


async def test_a_block_that_comes_after_it_was_asked_for_is_the_answer() -> None:
    hub = bench()
    sequence = await judging(hub)
    hub.link().delay_seconds = 10
    early = len(sequence.tokens)
    hub.step(sequence, accepted=4)
    session = hub.link().sessions["session"]
    late = replace(session.block((6, 7)), assumed=tuple(sequence.tokens[early:]))
    with counting("tandem_draft_ahead_total", outcome="late") as counted:
        hub.link().answer(Proposed("session", late))
    assert counted.by == 1
    block = hub.hub.peek(sequence)
    assert block
    assert block.token_ids == (6, 7)


async def test_a_block_further_ahead_waits_for_its_turn() -> None:
    hub = bench()
    sequence = await judging(hub)
    send_ahead(hub, [5, 5, 5, 5, 9], (6, 7))
    further = send_ahead(hub, [5, 5, 5, 5, 9, 6, 7, 9], (8, 8))
    hub.step(sequence, accepted=4)
    hub.step(sequence, accepted=2)
    *_, commit = updates(hub.link(), Commit)
    assert isinstance(commit, Commit)
    assert commit.next_block_id == further.block_id
    block = hub.hub.peek(sequence)
    assert block
    assert block.token_ids == (8, 8)


async def test_no_more_blocks_are_kept_than_were_allowed() -> None:
    hub = bench(most=1)
    sequence = await judging(hub)
    send_ahead(hub, [5, 9])
    with counting("tandem_draft_blocks_total", outcome="stale") as stale:
        send_ahead(hub, [5, 5, 9])
    assert stale.by == 1
    hub.step(sequence, accepted=2)
    (commit,) = updates(hub.link(), Commit)
    assert isinstance(commit, Commit)
    assert commit.next_block_id == 0


async def test_a_block_sent_ahead_is_trusted_no_more_than_any_other() -> None:
    hub = bench()
    sequence = await judging(hub)
    with counting("tandem_draft_blocks_total", outcome="invalid") as invalid:
        send_ahead(hub, [5, 9], (1000,))
    assert invalid.by == 1
    hub.step(sequence, accepted=1)
    assert not updates(hub.link(), Commit), "the draft has lost the session"


@pytest.mark.parametrize("base_length", [0, 2, 40])
async def test_a_block_about_text_that_the_draft_cannot_know_is_dropped(base_length: int) -> None:
    hub = bench()
    sequence = await judging(hub)
    before = hub.hub.peek(sequence)
    wild = Block(77, base_length, (5,), assumed=(5, 9))
    hub.link().answer(Proposed("session", wild))
    assert hub.hub.peek(sequence) is before
    hub.step(sequence, accepted=1)
    assert hub.hub.peek(sequence) is None


async def test_sessions_with_fact_checks_are_not_drafted_ahead() -> None:
    hub = bench()
    assert await hub.opened(make_sequence(PROMPT, "a", fact_check=FactCheck.ANNOTATE))
    (opened,) = updates(hub.link(), Open)
    assert isinstance(opened, Open)
    assert opened.ahead == 0


def test_going_ahead_stops_where_it_makes_steps_slower_and_begins_where_it_makes_them_faster() -> None:
    costs = {0: (1.0, 1.2, 1.5), 3: (1.0, 0.9, 0.7), 1: (1.0, 0.8, 0.9)}
    for best, each in costs.items():
        seconds = dict(zip((0, 1, 3), each, strict=True))
        policy, used = AheadPolicy(3), 0
        for _ in range(10_000):
            used += policy.blocks == best
            policy.observe_step(2, seconds[policy.blocks])
        assert used > 8_500


def test_without_leave_it_never_goes_ahead() -> None:
    policy = AheadPolicy(0)
    for _ in range(1_000):
        assert policy.blocks == 0
        policy.observe_step(2, 0.01)
