"""The hub under a controller: what is asked for, waited for, told and learned."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat

import pytest

from common.draft_types import Block, Commit, Open, Proposed, SparseDistribution
from common.types import Mode, SamplingParams
from tests.support.scripted import DraftSession, Propose, never
from tests.unit.verify.hub_bench import PROMPT, Bench, counts_up, seconds, updates
from tests.unit.verify.support import counting, make_sequence, sample
from verify_service.drafts.control.base import Choice, Outcome, Place, State
from verify_service.drafts.limits import Limits

PROBE = Choice(1, 1, probe=True)
OFF = Choice()


class Dictated:
    """A policy and its only controller: the choices that a test names, in order."""

    def __init__(self, *choices: Choice) -> None:
        self._choices: Iterator[Choice] = iter([*choices, *repeat(OFF, 100)])
        self.states: list[State] = []
        self.outcomes: list[Outcome] = []
        self.passes: list[tuple[int, float]] = []
        self.closed = False

    def controller(self) -> Dictated:
        return self

    def observe_pass(self, rows: int, seconds: float) -> None:
        self.passes.append((rows, seconds))

    def choose(self, state: State) -> Choice:
        self.states.append(state)
        return next(self._choices)

    def observe(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def close(self) -> None:
        self.closed = True


def dictated(
    *choices: Choice, draft: Propose = counts_up, wait_seconds: float = 5.0
) -> tuple[Bench, Dictated]:
    policy = Dictated(*choices)
    return Bench({"a": draft}, wait_seconds, policy=policy), policy


def commits(bench: Bench) -> list[Commit]:
    return [update for update in bench.link().updates if isinstance(update, Commit)]


async def test_a_session_asks_for_what_its_controller_chose_and_tells_what_it_knew() -> None:
    bench, policy = dictated(Choice(3), Choice(2))
    sequence = make_sequence(PROMPT, "a", block_size=8)
    block = await bench.opened(sequence)
    assert block and len(block.token_ids) == 3
    bench.step(sequence, accepted=1)
    assert commits(bench)[-1].block_size == 2
    assert policy.states == [State("pool-a", 8, 1, 1, 3), State("pool-a", 8, 1, 1, 5)]
    assert updates(bench.link(), Open)[0].max_block_size == 8  # type: ignore[attr-defined]


async def test_an_outcome_holds_what_stood_and_how_long_it_was_waited_for() -> None:
    bench, policy = dictated(Choice(3), Choice(2))
    sequence = make_sequence(PROMPT, "a", block_size=8)
    await bench.opened(sequence)
    bench.link().delay_seconds = 0.03
    bench.step(sequence, accepted=1)
    await bench.hub.wait([sequence])
    bench.step(sequence, accepted=2)
    first, second = policy.outcomes
    places = [Place(0, "pool-a", 1, 0), Place(1, "pool-a", 1, None)]
    assert first == Outcome(Choice(3), 3, places, waited=None)
    assert (second.offered, second.accepted) == (2, 2)
    assert second.waited and 0.01 < second.waited < 0.5


async def test_a_block_that_was_there_already_was_not_waited_for() -> None:
    bench, policy = dictated(Choice(3), Choice(2))
    sequence = make_sequence(PROMPT, "a", block_size=8)
    await bench.opened(sequence)
    bench.step(sequence)
    await asyncio.sleep(0.01)
    await bench.hub.wait([sequence])
    bench.step(sequence)
    assert policy.outcomes[1].waited == 0


async def test_a_draft_that_has_less_to_say_than_was_asked_for_is_told_apart_from_one_that_is_wrong() -> None:
    bench, policy = dictated(Choice(3), draft=lambda session: session.block([5]))
    sequence = make_sequence(PROMPT, "a", block_size=8)
    await bench.opened(sequence)
    bench.step(sequence, accepted=1)
    assert policy.outcomes[0].places == [Place(0, "pool-a", 1, 0), Place(1, "pool-a", 0, None)]


async def test_a_session_that_is_off_tells_nothing_waits_for_nothing_and_catches_up_in_one_message() -> None:
    bench, _ = dictated(Choice(3), OFF, OFF, OFF, Choice(2))
    sequence = make_sequence(PROMPT, "a", block_size=8)
    await bench.opened(sequence)
    off = sample("tandem_draft_sessions_off")
    for accepted in (2, 0, 0):
        bench.step(sequence, accepted)
        assert await seconds(bench, sequence) < 0.05
        assert bench.hub.peek(sequence) is None
    assert commits(bench) == []
    assert sample("tandem_draft_sessions_off") == off + 1
    bench.step(sequence)
    assert commits(bench) == [Commit("session", 3, 0, (), (5, 5, 9, 9, 9, 9), 2)]
    assert sample("tandem_draft_sessions_off") == off
    block = await bench.opened(sequence)
    assert block and (block.base_length, len(block.token_ids)) == (9, 2)


async def test_a_session_that_ends_while_it_is_off_is_not_counted_any_more() -> None:
    bench, policy = dictated(Choice(3), OFF)
    sequence = make_sequence(PROMPT, "a", block_size=8)
    off = sample("tandem_draft_sessions_off")
    await bench.opened(sequence)
    bench.step(sequence)
    bench.hub.close(sequence)
    assert sample("tandem_draft_sessions_off") == off
    assert policy.closed


async def test_a_sequence_whose_drafts_do_not_pay_opens_no_session() -> None:
    bench, _ = dictated()
    sequence = make_sequence(PROMPT, "a")
    for _ in range(3):
        await bench.opened(sequence)
        bench.step(sequence)
    assert bench.link().updates == []


def probed(says: int) -> Propose:
    return lambda session: session.block([says] * session.block_size)


@pytest.mark.parametrize(("says", "fate"), [(9, "right"), (5, "wrong")])
async def test_a_probe_is_not_waited_for_and_the_target_shows_whether_it_was_right(
    says: int, fate: str
) -> None:
    bench, policy = dictated(Choice(1), PROBE, OFF, OFF, draft=probed(says))
    sequence = make_sequence(PROMPT, "a", block_size=8)
    await bench.opened(sequence)
    bench.link().delay_seconds = 0.05
    bench.step(sequence)
    for _ in range(3):
        assert await seconds(bench, sequence) < 0.03
        bench.step(sequence)
    with counting("tandem_draft_probes_total", fate=fate) as counted:
        await asyncio.sleep(0.08)
    assert counted.by == 1
    seen = policy.outcomes[-1]
    assert (seen.choice, seen.offered, seen.accepted) == (PROBE, 1, int(says == 9))
    assert seen.waited and 0.03 < seen.waited < 0.5
    assert bench.hub.peek(sequence) is None
    assert len(commits(bench)) == 1, "a draft that works on a probe is left alone"
    bench.step(sequence)
    assert len(policy.states) == 3


async def test_a_probe_that_came_during_the_pass_is_judged_by_the_token_that_the_pass_gave() -> None:
    bench, policy = dictated(Choice(1), PROBE, OFF, draft=probed(9))
    sequence = make_sequence(PROMPT, "a", block_size=8)
    await bench.opened(sequence)
    bench.step(sequence)
    await bench.hub.wait([sequence])
    assert bench.hub.take(sequence) is None
    await asyncio.sleep(0.01)
    base_length = len(sequence.tokens)
    sequence.tokens.append(9)
    bench.hub.commit(sequence, base_length, None, ())
    assert policy.outcomes[-1].accepted == 1


async def test_a_probe_that_is_there_when_the_step_starts_is_verified() -> None:
    bench, policy = dictated(Choice(1), PROBE, Choice(2))
    sequence = make_sequence(PROMPT, "a", block_size=8)
    await bench.opened(sequence)
    bench.step(sequence)
    await asyncio.sleep(0.01)
    bench.step(sequence, accepted=1)
    assert policy.outcomes[-1].places == [Place(0, "pool-a", 1, 0)]
    assert commits(bench)[-1].accepted_nodes == (0,)


async def test_a_probe_that_never_comes_is_lost_after_the_wait_budget_and_ends_nothing() -> None:
    bench, policy = dictated(Choice(1), PROBE, PROBE, wait_seconds=0.03)
    sequence = make_sequence(PROMPT, "a", block_size=8)
    await bench.opened(sequence)
    bench.link().propose = never
    bench.step(sequence)
    await asyncio.sleep(0.05)
    with counting("tandem_draft_probes_total", fate="lost") as lost:
        bench.step(sequence)
    assert lost.by == 1
    assert policy.outcomes[-1] == Outcome(PROBE, None)
    assert bench.link().breaker.closed
    assert sequence.stats.missed_waits == 0
    assert len(commits(bench)) == 2


def sampled_wrong(session: DraftSession) -> Block:
    """One guess, drawn from a q that has no choice; the target says something else."""
    return session.block([5], [SparseDistribution((5,), (1.0,))])


async def test_under_rejection_a_sampled_guess_that_nobody_waited_for_proves_nothing_by_being_wrong() -> None:
    bench, policy = dictated(Choice(1), PROBE, OFF, draft=sampled_wrong)
    hot = SamplingParams(temperature=1)
    sequence = make_sequence(PROMPT, "a", block_size=8, mode=Mode.REJECTION, sampling=hot)
    await bench.opened(sequence)
    bench.link().delay_seconds = 0.01
    bench.step(sequence)
    bench.step(sequence)
    await asyncio.sleep(0.03)
    assert policy.outcomes[-1].choice == PROBE
    assert policy.outcomes[-1].places == []


async def test_a_missed_wait_is_told_with_the_whole_budget() -> None:
    bench, policy = dictated(Choice(3), Choice(3), wait_seconds=0.03)
    sequence = make_sequence(PROMPT, "a", block_size=8)
    await bench.opened(sequence)
    bench.link().propose = never
    bench.step(sequence)
    await bench.hub.wait([sequence])
    assert policy.outcomes[-1] == Outcome(Choice(3), None, waited=0.03)


async def test_a_commit_says_when_the_tree_gets_another_width_and_a_wider_answer_is_invalid() -> None:
    bench, _ = dictated(Choice(4, 2), Choice(4, 1), Choice(4, 1), Choice(4, 2))
    sequence = make_sequence(PROMPT, "a", block_size=8)
    sequence.tree_width = 2
    await bench.opened(sequence)
    for _ in range(3):
        bench.step(sequence)
        await asyncio.sleep(0.005)
    assert [commit.tree_width for commit in commits(bench)] == [1, 0, 2]
    bench.link().propose = lambda session: session.block([1, 2], parents=[-1, -1])
    bench.step(sequence)
    bench.step(sequence)


@pytest.mark.parametrize(("running", "speculates"), [(1, False), (2, True), (3, True), (4, False)])
async def test_drafts_are_used_between_the_fewest_and_the_most_running(
    running: int, speculates: bool
) -> None:
    bench = Bench({"a": counts_up}, limits=Limits(min_batch=2, max_batch=3))
    sequences = [make_sequence(PROMPT, "a", session_id=str(index)) for index in range(running)]
    await bench.hub.wait(sequences)
    assert bool(updates(bench.link(), Open)) is speculates


async def test_a_batch_that_grows_beyond_the_most_asks_no_more() -> None:
    bench = Bench({"a": counts_up}, limits=Limits(max_batch=1))
    sequence = make_sequence(PROMPT, "a")
    await bench.opened(sequence)
    await bench.hub.wait([sequence, make_sequence(PROMPT, session_id="other")])
    bench.step(sequence)
    assert commits(bench) == []


def tree_with_confidences(session: DraftSession) -> Block:
    block = session.block([1, 2, 3, 4, 5], parents=[-1, -1, 1, 0, 3])
    confident = replace(block, confidences=(0.8, 0.6, 0.05, 0.7, 0.1))
    session.proposed[block.block_id] = confident
    return confident


async def test_guesses_without_confidence_are_cut_and_the_draft_hears_of_the_others_by_its_own_numbers() -> (
    None
):
    bench = Bench({"a": tree_with_confidences}, limits=Limits(min_confidence=0.25))
    sequence = make_sequence(PROMPT, "a", block_size=8)
    sequence.tree_width = 2
    with counting("tandem_draft_unsure_tokens_total") as unsure:
        block = await bench.opened(sequence)
    assert unsure.by == 2
    assert block and (block.token_ids, block.parents) == ((1, 2, 4), (-1, -1, 0))
    bench.judge(sequence, (0, 2))
    assert commits(bench)[-1].accepted_nodes == (0, 3)
    assert bench.link().sessions["session"].tokens == sequence.tokens


async def test_a_block_with_a_confidence_for_some_of_its_guesses_is_invalid() -> None:
    bench = Bench({"a": never})
    sequence = make_sequence(PROMPT, "a")
    await bench.opened(sequence)
    with counting("tandem_draft_blocks_total", outcome="invalid") as invalid:
        bench.link().answer(Proposed("session", Block(1, 3, (1, 2), confidences=(0.5,))))
    assert invalid.by == 1


async def test_passes_are_told_to_the_policy() -> None:
    bench, policy = dictated()
    bench.hub.observe_pass(5, 0.01)
    assert policy.passes == [(5, 0.01)]
