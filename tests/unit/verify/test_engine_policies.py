"""Lossy policies through the engine: what they let stand, and what the answer and the metrics say of it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from common.draft_types import Block, SparseDistribution
from common.types import FactCheck, Origin, PolicyChoice, SamplingParams, SpeculationParams, Stopping
from tests.support.scripted import (
    GREEDY,
    Answer,
    Bench,
    CharTokenizer,
    DraftSession,
    Propose,
    Target,
    ask,
    half_wrong,
    make_engine,
    perfect,
    read,
    running,
)
from tests.support.scripted.target import EOS, Script
from tests.unit.verify.support import counting

TOKENIZER = CharTokenizer()
PROMPT = TOKENIZER.encode("rates rose by 25bp. what now?")
ANSWER = [*TOKENIZER.encode("rates rose by 25bp, and that was all."), EOS]
DRAFTED = [*TOKENIZER.encode("rates rose by 50bp, and that was all."), EOS]
CLAIM = range(14, 16)  # of the answer: "25"


def torn(prefix: tuple[int, ...]) -> Tensor:
    """Says ``ANSWER``, but nearly as gladly ``DRAFTED``, whichever of them was said so far."""
    place = len(prefix) - len(PROMPT)
    logits = torch.full((len(TOKENIZER),), -20.0)
    if 0 <= place < len(ANSWER):
        logits[DRAFTED[place]] = 9.5
        logits[ANSWER[place]] = 10.0
    else:
        logits[EOS] = 10.0
    return logits


def drafting(session: DraftSession) -> Block:
    """Certain of ``DRAFTED``, but it shows that it was torn too."""
    place = len(session.tokens) - len(PROMPT)
    guesses = DRAFTED[place : place + session.block_size]
    shown = []
    if session.opened.shown_temperature:
        for guess, other in zip(guesses, ANSWER[place : place + session.block_size], strict=True):
            even = SparseDistribution((guess, other), (0.5, 0.5))
            shown.append(even if guess != other else SparseDistribution((guess,), (1.0,)))
    return session.block(guesses, shown)


def asking(policy: PolicyChoice | None, fact_check: FactCheck = FactCheck.OFF) -> SpeculationParams:
    return SpeculationParams(policy=policy, fact_check=fact_check)


async def answered(bench: Bench, policy: PolicyChoice | None, sampling: SamplingParams = GREEDY) -> Answer:
    async with running(bench.engine):
        return await read(bench.engine, ask(PROMPT, "draft", sampling=sampling, speculation=asking(policy)))


def engine(target: Target = torn, draft: Propose = drafting) -> Bench:
    return make_engine(target, {"draft": draft}, block_size=7)


async def test_a_lossy_answer_says_under_which_policy_and_how_far_it_strayed() -> None:
    with (
        counting("tandem_policy_requests_total", policy="kl") as requests,
        counting("tandem_policy_tokens_total", policy="kl", kind="strayed") as strayed,
        counting("tandem_policy_tokens_total", policy="kl", kind="target") as kept,
    ):
        answer = await answered(engine(), PolicyChoice("kl"))
    assert answer.token_ids == DRAFTED
    assert answer.started.policy == "kl"
    stats = answer.finished.stats
    assert stats.strayed_tokens == len(CLAIM)
    assert 0 < stats.nkl_sum < 0.15 * stats.accepted_tokens
    assert (requests.by, strayed.by, kept.by) == (1, len(CLAIM), len(DRAFTED) - len(CLAIM))


async def test_without_a_policy_the_same_drafts_change_nothing() -> None:
    bench = engine()
    answer = await answered(bench, None)
    assert answer.token_ids == ANSWER
    assert answer.started.policy == ""
    assert (answer.finished.stats.strayed_tokens, answer.finished.stats.nkl_sum) == (0, 0.0)
    bench.assert_idle()


@pytest.mark.parametrize("name", ["strict", "block"])
@pytest.mark.parametrize("draft", [perfect, half_wrong])
async def test_greedily_some_policies_lose_nothing(name: str, draft: object) -> None:
    script = Script(len(TOKENIZER))
    script.add(PROMPT, ANSWER)
    answer = await answered(engine(script, draft(script)), PolicyChoice(name))  # type: ignore[operator]
    assert answer.token_ids == ANSWER
    assert answer.finished.stats.strayed_tokens == 0


async def test_block_gives_up_a_run_that_is_too_short() -> None:
    script = Script(len(TOKENIZER))
    script.add(PROMPT, ANSWER)
    answer = await answered(engine(script, half_wrong(script)), PolicyChoice("block", {"least": 3}))
    runs, length = [], 0
    for provenance in answer.provenance:
        if provenance.origin is Origin.DRAFT:
            length += 1
        else:
            runs.append(length)
            length = 0
    assert not {1, 2} & {*runs}
    assert max(runs) >= 3


async def test_a_policy_of_the_deployment_holds_for_requests_that_name_none() -> None:
    bench = make_engine(torn, {"draft": drafting}, block_size=7, default_policy=PolicyChoice("kl"))
    async with running(bench.engine):
        default = await read(bench.engine, ask(PROMPT, "draft"))
        none = await read(bench.engine, ask(PROMPT, "draft", speculation=asking(PolicyChoice("lossless"))))
    assert (default.started.policy, default.token_ids) == ("kl", DRAFTED)
    assert (none.started.policy, none.token_ids) == ("", ANSWER)


async def test_the_same_seed_gives_the_same_lossy_answer() -> None:
    policy = PolicyChoice("kl", {"probabilistic": True, "delta": 0.02})
    warm = SamplingParams(temperature=1, seed=11)
    one, other = [await answered(engine(), policy, warm) for _ in range(2)]
    assert one.token_ids == other.token_ids


async def test_a_lossy_answer_ends_where_its_limits_say() -> None:
    bench = engine()
    async with running(bench.engine):
        answer = await read(
            bench.engine,
            ask(PROMPT, "draft", stopping=Stopping(max_tokens=16), speculation=asking(PolicyChoice("kl"))),
        )
    assert answer.token_ids == [*DRAFTED[:15], ANSWER[15]], "the last position is the target's"
    assert answer.finished.stats.strayed_tokens == 1
    bench.assert_idle()
