"""Trees through the whole step: the answer is that without drafts, whatever is drafted, wherever it ends."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from common import trees
from common.draft_types import Block, Commit, Open
from common.errors import InvalidRequest
from common.model.batch import Move
from common.model.block_manager import BLOCK_SIZE
from common.types import (
    Delta,
    FactCheck,
    FinishReason,
    GenerateRequest,
    Mode,
    Origin,
    SamplingParams,
    SpeculationParams,
    Stopping,
)
from tests.support.scripted import (
    EOS,
    Answer,
    Bench,
    CharTokenizer,
    DraftSession,
    Propose,
    Script,
    ask,
    branching,
    collect,
    decoys_first,
    hostile,
    keyed_tree,
    make_engine,
    read,
    running,
    sampled_tree,
)
from tests.unit.verify.support import counting, hashed_target, make_sequence

TOKENIZER = CharTokenizer()
VOCABULARY = len(TOKENIZER)
PROMPT = TOKENIZER.encode("once upon")
ANSWER = [*TOKENIZER.encode(" a time there was a fox in the woods"), EOS]
DRAFTS: dict[str, Callable[[Script], Propose]] = {
    "right": lambda script: branching(script, 1.0),
    "half right": lambda script: branching(script, 0.6),
    "never right": lambda script: branching(script, 0.0),
    "decoys first": decoys_first,
    "hostile": hostile,
}


def scripted() -> Script:
    script = Script(VOCABULARY)
    script.add(PROMPT, ANSWER)
    return script


def bench_of(draft: str, *, tree_width: int = 3, block_size: int = 8, **options: Any) -> Bench:
    script = scripted()
    propose = DRAFTS[draft](script)
    return make_engine(script, {"draft": propose}, tree_width=tree_width, block_size=block_size, **options)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("block_size", [1, 2, 5, 8, 16])
@pytest.mark.parametrize("tree_width", [2, 4, 8])
@pytest.mark.parametrize("draft", DRAFTS)
async def test_a_greedy_answer_is_the_targets_own_whatever_tree_is_drafted(
    draft: str, tree_width: int, block_size: int, mode: Mode
) -> None:
    bench = bench_of(draft, tree_width=tree_width, block_size=block_size)
    answer = await collect(bench.engine, ask(PROMPT, "draft", speculation=SpeculationParams(mode=mode)))
    assert answer.token_ids == ANSWER
    accepted = answer.finished.stats.accepted_tokens
    if draft in ("right", "never right"):
        assert (accepted > 0) == (draft == "right")
    if draft == "decoys first":
        assert (accepted > 0) == (block_size >= tree_width)
    bench.assert_idle()


async def test_a_branch_that_lies_between_others_is_moved_into_place_before_the_next_pass() -> None:
    bench = bench_of("decoys first", tree_width=2, block_size=6)
    answer = await collect(bench.engine, ask(PROMPT, "draft"))
    assert answer.token_ids == ANSWER
    (drafted,) = bench.runner.passes[1]
    assert drafted.parents == (-1, -1, 1, 1, 3, 3)
    root = drafted.start + len(drafted.token_ids) - 6
    slots = [block * BLOCK_SIZE + offset for block in drafted.blocks for offset in range(BLOCK_SIZE)]
    assert bench.runner.moves[2] == [
        Move(slots[root + node], slots[root + depth]) for depth, node in enumerate((1, 3, 5))
    ]
    assert bench.runner.passes[2][0].start == root + 3


async def test_a_draft_hears_which_guesses_of_its_tree_stand() -> None:
    bench = bench_of("decoys first", tree_width=2, block_size=4)
    await collect(bench.engine, ask(PROMPT, "draft"))
    updates = bench.drafts.links["draft"].updates
    assert isinstance(updates[0], Open)
    assert updates[0].tree_width == 2
    commits = [update for update in updates if isinstance(update, Commit)]
    assert commits[1].accepted_nodes == (1, 3)
    assert len(commits[1].token_ids) == 1


async def test_counters_count_guesses_by_their_distance_from_the_committed_text() -> None:
    bench = bench_of("decoys first", tree_width=3, block_size=6)
    with (
        counting("tandem_spec_decode_num_draft_tokens_total") as guesses,
        counting("tandem_spec_decode_num_draft_tokens_per_pos_total", position="1") as second,
    ):
        answer = await collect(bench.engine, ask(PROMPT, "draft"))
    stats = answer.finished.stats
    assert stats.draft_tokens == 6 * stats.drafts == guesses.by
    assert stats.drafted_per_position == [3 * stats.drafts, 3 * stats.drafts]
    assert second.by == 3 * stats.drafts
    assert sum(stats.accepted_per_position) == stats.accepted_tokens
    assert stats.accepted_per_position[0] == stats.drafts


@pytest.mark.parametrize("draft", DRAFTS)
async def test_the_origin_of_every_token_adds_up(draft: str) -> None:
    answer = await collect(bench_of(draft).engine, ask(PROMPT, "draft"))
    stats, origins = answer.finished.stats, [p.origin for p in answer.provenance]
    assert origins.count(Origin.DRAFT) == stats.accepted_tokens == sum(stats.accepted_per_position)
    assert stats.draft_tokens == sum(stats.drafted_per_position)
    judged = origins.count(Origin.BONUS) + origins.count(Origin.CORRECTED) + (origins[-1] is Origin.DRAFT)
    assert judged == stats.drafts


async def test_a_token_after_a_leaf_is_a_bonus_and_one_beside_a_guess_a_correction() -> None:
    script = scripted()
    first, second = ANSWER[1:3]

    def propose(session: DraftSession) -> Block:
        if len(session.tokens) != len(PROMPT) + 1:
            return session.block([])
        return session.block([first, first + 1, second if bonus else second + 1], parents=(-1, -1, 0))

    for bonus in (True, False):
        bench = make_engine(script, {"draft": propose}, tree_width=2)
        answer = await collect(bench.engine, ask(PROMPT, "draft"))
        last = answer.deltas[1].provenance[-1].origin
        assert last is (Origin.BONUS if bonus else Origin.CORRECTED)


def seeded_requests() -> list[GenerateRequest]:
    return [
        ask(
            TOKENIZER.encode(f"prompt {index}"),
            "draft",
            sampling=SamplingParams(
                temperature=0.5 * (index % 3),
                seed=index - 4,
                top_k=9 * (index % 2),
                presence_penalty=0.5,
            ),
            stopping=Stopping(max_tokens=20 + 3 * index, stop=("th",)),
            speculation=SpeculationParams(block_size=2 + 2 * index, tree_width=2 + index % 3),
        )
        for index in range(8)
    ]


def plain(request: GenerateRequest) -> GenerateRequest:
    return GenerateRequest("plain", request.prompt, request.sampling, request.stopping)


MODEL_DRAFTS: dict[str, Callable[[], Propose]] = {
    "good": lambda: keyed_tree(hashed_target(VOCABULARY, drift=0.4)),
    "bad": lambda: keyed_tree(hashed_target(VOCABULARY, salt=9)),
    "adversarial": lambda: keyed_tree(lambda prefix: -hashed_target(VOCABULARY)(prefix)),
    "not keyed": lambda: sampled_tree(hashed_target(VOCABULARY, drift=0.4)),
}


def noisy_bench(draft: str = "good", **options: Any) -> Bench:
    return make_engine(
        hashed_target(VOCABULARY), {"draft": MODEL_DRAFTS[draft]()}, tokenizer=TOKENIZER, **options
    )


async def undisturbed() -> list[Answer]:
    bench = noisy_bench()
    async with running(bench.engine):
        return [await read(bench.engine, plain(request)) for request in seeded_requests()]


@pytest.mark.parametrize("draft", MODEL_DRAFTS)
async def test_eight_seeded_answers_at_once_are_those_without_drafts(draft: str) -> None:
    expected = await undisturbed()
    bench = noisy_bench(draft)
    async with running(bench.engine):
        answers = await asyncio.gather(*(read(bench.engine, request) for request in seeded_requests()))
    assert [answer.token_ids for answer in answers] == [answer.token_ids for answer in expected]
    assert [answer.text for answer in answers] == [answer.text for answer in expected]
    if draft == "good":
        assert any(bench.runner.moves), "no branch had to be moved"
    bench.assert_idle()


async def test_trees_cut_by_the_budget_and_sequences_preempted_again_and_again_change_nothing() -> None:
    expected = await undisturbed()
    bench = noisy_bench(num_blocks=7, context_length=90, max_batch_tokens=40)
    requests = [*seeded_requests(), *seeded_requests()]
    async with running(bench.engine):
        answers = await asyncio.gather(*(read(bench.engine, request) for request in requests))
    for answer, undisturbed_answer in zip(answers, expected * 2, strict=True):
        assert answer.token_ids == undisturbed_answer.token_ids
    assert any(bench.runner.moves)
    widest = max(len(s.parents) for segments in bench.runner.passes for s in segments)
    cut = {len(s.parents) for segments in bench.runner.passes for s in segments if s.parents}
    assert len(cut) > 2, f"no tree was cut, {widest} guesses each"
    recomputed = sum(bench.runner.pass_sizes) / sum(len(answer.token_ids) for answer in answers)
    assert recomputed > 1, "nothing was preempted; the pool is too large for this test"
    bench.assert_idle()


async def test_a_sequence_that_must_skip_a_pass_does_not_lose_its_branch() -> None:
    """What it has to have moved is moved in a pass of others."""
    sampling, speculation = SamplingParams(seed=3), SpeculationParams(block_size=12, tree_width=4)
    stopping = Stopping(max_tokens=40, ignore_eos=True)
    requests = [
        ask([token], "draft", sampling=sampling, stopping=stopping, speculation=speculation)
        for token in range(1, 7)
    ]
    undisturbed_bench, bench = noisy_bench(), noisy_bench(max_batch_tokens=16)
    async with running(undisturbed_bench.engine):
        expected = [await read(undisturbed_bench.engine, plain(request)) for request in requests]
    async with running(bench.engine):
        answers = await asyncio.gather(*(read(bench.engine, request) for request in requests))
    assert [answer.token_ids for answer in answers] == [answer.token_ids for answer in expected]
    for_others = [
        move
        for segments, moves in zip(bench.runner.passes, bench.runner.moves, strict=True)
        for move in moves
        if not any(move.target // BLOCK_SIZE in segment.blocks for segment in segments)
    ]
    assert for_others, "every sequence with something to move was in the next pass"


@pytest.mark.parametrize("cut", range(1, 10))
async def test_max_tokens_inside_an_accepted_branch_ends_the_answer_there(cut: int) -> None:
    bench = bench_of("decoys first", tree_width=2, block_size=8)
    answer = await collect(bench.engine, ask(PROMPT, "draft", stopping=Stopping(max_tokens=cut)))
    assert answer.token_ids == ANSWER[:cut]
    assert answer.finished.reason is FinishReason.LENGTH
    for segments in bench.runner.passes:
        for segment in segments:
            depths = trees.depths(segment.parents)
            longest = segment.start + len(segment.token_ids) - len(depths) + max(depths, default=-1) + 1
            assert longest <= len(PROMPT) + cut - 1, "a guess was verified that cannot be delivered"
    bench.assert_idle()


@pytest.mark.parametrize("stop", ["ti", "ime", "there", "e t", "x"])
@pytest.mark.parametrize("draft", ["right", "decoys first"])
async def test_a_stop_string_inside_an_accepted_branch_ends_the_answer_there(draft: str, stop: str) -> None:
    whole = await collect(bench_of(draft).engine, ask(PROMPT))
    bench = bench_of(draft, tree_width=2, block_size=12)
    answer = await collect(bench.engine, ask(PROMPT, "draft", stopping=Stopping(stop=(stop,))))
    assert answer.text == whole.text[: whole.text.index(stop)]
    assert answer.finished.reason is FinishReason.STOP
    assert answer.finished.stats.accepted_tokens == [p.origin for p in answer.provenance].count(Origin.DRAFT)
    bench.assert_idle()


async def test_leaving_with_a_branch_not_yet_moved_frees_everything_and_harms_nobody() -> None:
    bench = bench_of("decoys first", tree_width=2, block_size=6)
    async with running(bench.engine):
        leaving = bench.engine.generate(ask(PROMPT, "draft"))
        staying = asyncio.create_task(read(bench.engine, ask(PROMPT, "draft")))
        async for event in leaving:
            if isinstance(event, Delta) and len(event.token_ids) > 1:
                break  # a branch was accepted in the pass just done
        await leaving.aclose()
        assert (await staying).token_ids == ANSWER
        assert (await read(bench.engine, ask(PROMPT, "draft"))).token_ids == ANSWER
    bench.assert_idle()


def test_a_branch_kept_is_computed_and_what_does_not_lie_where_it_must_is_moved() -> None:
    sequence = make_sequence([1] * 20)
    sequence.blocks = [7, 3]
    sequence.keep((0, 2, 5))
    assert sequence.num_computed == 23
    assert sequence.moves == [Move(3 * 16 + 6, 3 * 16 + 5), Move(3 * 16 + 9, 3 * 16 + 6)]


async def test_a_later_turn_starts_on_branches_that_were_moved_into_place() -> None:
    """The last branch of an answer is only moved in a pass of whoever comes next."""
    script = Script(VOCABULARY)
    turns = [PROMPT]
    for _ in range(4):
        script.add(turns[-1], ANSWER)
        turns.append([*turns[-1], *ANSWER[:-1], *PROMPT])
    bench = make_engine(script, {"draft": decoys_first(script)}, tree_width=2, block_size=8)
    async with running(bench.engine):
        answers = [await read(bench.engine, ask(turn, "draft")) for turn in turns[:-1]]
    assert [answer.token_ids for answer in answers] == [ANSWER] * 4
    assert all(answer.finished.stats.accepted_tokens for answer in answers)
    for before, answer in zip(turns, answers[1:], strict=False):
        known = len(before) + len(ANSWER) - 1
        assert answer.finished.usage.cached_tokens >= (known - 1) // BLOCK_SIZE * BLOCK_SIZE - BLOCK_SIZE > 0


@pytest.mark.parametrize("draft", ["good", "bad"])
async def test_log_probabilities_are_those_without_drafts(draft: str) -> None:
    requests = [replace(request, top_logprobs=3) for request in seeded_requests()]
    bench = noisy_bench(draft)
    async with running(bench.engine):
        plain_answers = [await read(bench.engine, replace(request, drafts=())) for request in requests]
        drafted = [await read(bench.engine, request) for request in requests]
    for one, other in zip(plain_answers, drafted, strict=True):
        expected = [scored for delta in one.deltas for scored in delta.logprobs]
        assert [scored for delta in other.deltas for scored in delta.logprobs] == expected
        assert len(expected) == len(other.token_ids)


async def test_a_tree_wider_than_the_deployment_allows_is_refused_by_name() -> None:
    bench = bench_of("right", max_tree_width=2)
    with pytest.raises(InvalidRequest) as refused:
        await collect(bench.engine, ask(PROMPT, "draft", speculation=SpeculationParams(tree_width=3)))
    assert refused.value.field == "speculation.tree_width"


@pytest.mark.parametrize("check", [FactCheck.ANNOTATE, FactCheck.VETO])
async def test_an_answer_that_is_fact_checked_is_drafted_in_chains(check: FactCheck) -> None:
    script = scripted()

    def propose(session: DraftSession) -> Block:
        return session.block(script.continuation(session.tokens, session.block_size))

    bench = make_engine(script, {"draft": propose}, tree_width=4, fact_checks=True)
    await collect(bench.engine, ask(PROMPT, "draft", speculation=SpeculationParams(fact_check=check)))
    (opened, *_) = bench.drafts.links["draft"].updates
    assert isinstance(opened, Open)
    assert opened.tree_width == 1


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_is_drafted_accepted_cut_and_preempted_the_answers_are_the_same(seed: int) -> None:
    chance = random.Random(seed)
    script = scripted()
    script.add(TOKENIZER.encode("go"), TOKENIZER.encode(" on and on and on and on"))
    propose = branching(script, chance.choice([0.4, 0.7, 1.0]))
    bench = make_engine(
        script,
        {"draft": propose},
        tree_width=chance.randint(2, 8),
        block_size=chance.randint(1, 16),
        num_blocks=chance.randint(6, 12),
        max_batch_tokens=chance.randint(16, 64),
        context_length=80,
    )
    async with running(bench.engine):
        answers = await asyncio.gather(*(read(bench.engine, ask(PROMPT, "draft")) for _ in range(5)))
    assert [answer.token_ids for answer in answers] == [ANSWER] * 5
    bench.assert_idle()
