"""Answers with lookahead: the target's own, in fewer passes, and only while that pays."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from common import trees
from common.types import FactCheck, GenerateRequest, Origin, SamplingParams, SpeculationParams, Stopping
from tests.support.always_looking import always_looking
from tests.support.scripted import (
    Answer,
    Bench,
    CharTokenizer,
    Script,
    ask,
    collect,
    make_engine,
    perfect,
    read,
    running,
)
from tests.unit.verify.support import counting, hashed_target, until
from verify_service.drafts.lookahead.link import ENDPOINT
from verify_service.drafts.lookahead.lookahead import Lookahead

VOCABULARY = len(CharTokenizer())
PROMPT = [3, 40, 17, 28, 9]
LENGTH = 40
WIDTH, NGRAM = 4, 4
ROWS = WIDTH * (NGRAM - 1) - 1


def around(prefix: tuple[int, ...]) -> Tensor:
    """A circle through all tokens but the end: nothing is said twice within 43 tokens."""
    logits = torch.zeros(VOCABULARY)
    logits[1 + (prefix[-1] + 15) % (VOCABULARY - 1)] = 30.0
    return logits


def to_the(count: int) -> Stopping:
    return Stopping(max_tokens=count, ignore_eos=True)


async def answers(bench: Bench, *asked: GenerateRequest) -> list[Answer]:
    async with running(bench.engine):
        return list(await asyncio.gather(*(read(bench.engine, each) for each in asked)))


async def test_text_that_never_was_is_guessed_by_looking_ahead() -> None:
    without = await collect(make_engine(around).engine, ask(PROMPT, stopping=to_the(LENGTH)))
    with counting("tandem_lookahead_rows_total") as rows:
        bench = make_engine(around, lookahead=always_looking(WIDTH, NGRAM))
        answer = await collect(bench.engine, ask(PROMPT, stopping=to_the(LENGTH)))
    assert rows.by > ROWS
    assert rows.by % ROWS == 0
    assert answer.token_ids == without.token_ids
    assert len(set(answer.token_ids)) == LENGTH
    assert without.finished.stats.steps == LENGTH
    assert answer.finished.stats.steps < 0.75 * LENGTH


async def test_an_answer_names_lookahead_as_the_source_of_its_guesses() -> None:
    bench = make_engine(around, lookahead=always_looking(WIDTH, NGRAM))
    answer = await collect(bench.engine, ask(PROMPT, stopping=to_the(LENGTH)))
    drafted = [made for made in answer.provenance if made.origin is Origin.DRAFT]
    assert len(drafted) == answer.finished.stats.accepted_tokens > 0
    assert {made.source for made in drafted} == {"lookahead"}


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize(
    "sampling",
    [
        SamplingParams(temperature=0),
        SamplingParams(seed=5),
        SamplingParams(seed=-7, top_p=0.9, repetition_penalty=1.2),
    ],
    ids=["greedy", "seeded", "seeded and penalised"],
)
async def test_answers_are_those_without_lookahead_in_any_company(
    sampling: SamplingParams, width: int
) -> None:
    target = hashed_target(VOCABULARY, spread=4.0)
    asked = [
        ask(
            [7, *range(1, 3 + index), 7],
            sampling=sampling if index % 2 else replace(sampling, temperature=0, seed=None),
            stopping=to_the(16 + 6 * index),
            speculation=SpeculationParams(tree_width=width),
        )
        for index in range(4)
    ]
    plain = await answers(make_engine(target), *asked)
    bench = make_engine(target, lookahead=always_looking(WIDTH, NGRAM))
    found = await answers(bench, *asked)
    assert [answer.token_ids for answer in found] == [answer.token_ids for answer in plain]
    assert sum(answer.finished.stats.draft_tokens for answer in found) > 0
    bench.assert_idle()


async def test_a_small_pool_and_a_small_budget_change_nothing_and_windows_push_nobody_out() -> None:
    asked = [ask([index + 1] * 20, stopping=to_the(28)) for index in range(3)]
    plain = await answers(make_engine(around), *asked)
    with counting("tandem_num_preemptions_total") as preemptions:
        bench = make_engine(
            around, lookahead=always_looking(8, 8), num_blocks=9, max_batch_tokens=40, block_size=1
        )
        found = await answers(bench, *asked)
    assert [answer.token_ids for answer in found] == [answer.token_ids for answer in plain]
    assert max(bench.runner.pass_sizes) <= 40
    assert preemptions.by == 0
    bench.assert_idle()


async def test_an_answer_as_long_as_the_context_is_looked_ahead_no_further_than_its_end() -> None:
    bench = make_engine(around, lookahead=always_looking(WIDTH, NGRAM), context_length=64)
    answer = await collect(bench.engine, ask(PROMPT))
    assert len(PROMPT) + len(answer.token_ids) == 64
    deepest = [
        each.start + 1 + max(trees.depths(each.parents), default=-1)
        for segments in bench.runner.passes
        for each in segments
    ]
    assert 50 < max(deepest) < 64


async def test_a_plan_with_drafts_and_an_answer_that_is_checked_are_left_alone() -> None:
    script = Script(VOCABULARY)
    script.add(PROMPT, list(range(1, 41)))
    bench = make_engine(
        script, {"draft": perfect(script)}, lookahead=always_looking(), fact_checks=True, num_blocks=64
    )
    checked = SpeculationParams(fact_check=FactCheck.ANNOTATE)
    drafted = await bench.admission.sequence(ask(PROMPT, "draft"))
    alone = await bench.admission.sequence(ask(PROMPT, speculation=checked))
    off = await bench.admission.sequence(ask(PROMPT, speculation=SpeculationParams(disabled=True)))
    own = await bench.admission.sequence(ask(PROMPT))
    assert [endpoint.address for endpoint in drafted.request.drafts] == ["draft"]
    assert alone.request.drafts == ()
    assert (alone.block_size, off.block_size) == (0, 0)
    assert own.request.drafts == (ENDPOINT,)


async def test_a_client_that_leaves_takes_its_window_with_it() -> None:
    lookahead = always_looking(WIDTH, NGRAM)
    bench = make_engine(around, lookahead=lookahead)
    bench.runner.pause_seconds = 0.002
    async with running(bench.engine):
        task = asyncio.create_task(read(bench.engine, ask(PROMPT, stopping=to_the(400))))
        await until(lambda: len(bench.runner.passes) > 8)
        assert len(lookahead.link.sessions) == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await until(lambda: bench.engine.load == (0, 0))
    assert lookahead.link.sessions == {}
    bench.assert_idle()


async def test_where_rows_are_dear_and_guesses_useless_nobody_looks_ahead_for_long() -> None:
    def new(prefix: tuple[int, ...]) -> Tensor:
        """Nothing follows the same token twice alike."""
        logits = torch.zeros(VOCABULARY)
        logits[1 + hash(prefix) % (VOCABULARY - 1)] = 30.0
        return logits

    bench = make_engine(new, lookahead=Lookahead(WIDTH, NGRAM))
    bench.runner.row_seconds = 0.0003
    await collect(bench.engine, ask(PROMPT, stopping=to_the(400)))
    looked = [size > ROWS for size in bench.runner.pass_sizes]
    assert 20 < sum(looked[:210]) < 110
    assert sum(looked[210:340]) == 0


async def test_it_is_kept_for_batches_of_the_size_at_which_it_pays() -> None:
    bench = make_engine(around, lookahead=(lookahead := Lookahead(WIDTH, NGRAM)))
    gains = {1: 1.5, 8: 0.6}
    bench.runner.gate.clear()
    async with running(bench.engine):
        task = asyncio.create_task(read(bench.engine, ask(PROMPT, stopping=to_the(20))))
        await until(lambda: bench.runner.inside)  # a session that is looked ahead for
        looked = {
            batch: sum(step(lookahead, batch, gain) for _ in range(2000)) for batch, gain in gains.items()
        }
        bench.runner.gate.set()
        await task
    assert looked[1] > 1600
    assert looked[8] < 500


def step(lookahead: Lookahead, batch: int, gain: float) -> bool:
    """A step that makes a token for each of a batch, faster by ``gain`` with windows; whether it had them."""
    pays = lookahead.pays(batch)
    lookahead.observe_step(batch, batch, 0.01 / (gain if pays else 1))
    return pays
