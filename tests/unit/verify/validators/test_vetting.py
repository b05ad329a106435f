"""Blocks in an engine are cut in time or not at all, whatever validators do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from common.draft_types import Block
from common.errors import InvalidRequest
from common.types import Mode, SamplingParams, SpeculationParams, Stopping, ValidatorChoice
from tests.support.offered import offered
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
    half_wrong,
    make_engine,
    perfect,
    read,
    running,
    sampled,
)
from tests.unit.verify.support import Counted, counting, hashed_target
from verify_service.acceptance import TargetRows, Verdict
from verify_service.validators import client, registry
from verify_service.validators.vetting import OUTCOMES, Vetting

TOKENIZER = CharTokenizer([*(chr(code) for code in range(32, 127)), "\n", b"\xc3", b"\xa9"])
PROMPT = TOKENIZER.encode("go")
TEXT = '{"a": [1, 23, "é"], "b": {"c": null}}'
ANSWER = [*TOKENIZER.encode(TEXT), EOS]
JSON = ValidatorChoice("json", {"whole": "true"})
PATIENT = 10.0


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with offered(tmp_path, monkeypatch):
        yield


def script() -> Script:
    made = Script(len(TOKENIZER))
    made.add(PROMPT, ANSWER)
    return made


def anything(target: TargetRows, block: Block, seed: int) -> Verdict:
    """Takes the first branch whatever it says."""
    nodes: list[int] = []
    for node, parent in enumerate(block.tree):
        if parent == (nodes[-1] if nodes else -1):
            nodes.append(node)
    return Verdict(tuple(nodes), target.choice(nodes[-1] + 1 if nodes else 0, seed))


LOSSY = dict.fromkeys(Mode, anything)


@asynccontextmanager
async def vetted(draft: Propose, seconds: float = PATIENT, **options: Any) -> AsyncIterator[Bench]:
    vetting = Vetting(seconds, PATIENT)
    target = script().__call__  # what was committed may be more than the target would say
    bench = make_engine(target, {"a": draft}, tokenizer=TOKENIZER, vetting=vetting, **options)
    try:
        async with running(bench.engine):
            yield bench
    finally:
        await vetting.close()
    bench.assert_idle()


async def answer(bench: Bench, *validators: ValidatorChoice, mode: Mode | None = None) -> Answer:
    speculation = SpeculationParams(validators=validators, mode=mode)
    return await read(bench.engine, ask(PROMPT, "a", speculation=speculation, stopping=Stopping(60)))


def outcomes(name: str, outcome: str) -> AbstractContextManager[Counted]:
    return counting("tandem_validator_outcomes_total", validator=name, outcome=outcome)


@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.value)
async def test_a_greedy_answer_stays_what_it_is_and_wrong_guesses_are_not_verified(mode: Mode) -> None:
    async with vetted(half_wrong(script())) as bench:
        plain = await answer(bench, mode=mode)
        cut = await answer(bench, JSON, mode=mode)
    assert cut.token_ids == plain.token_ids == ANSWER
    assert cut.text == TEXT
    assert cut.finished.stats.invalid_tokens > 0
    assert plain.finished.stats.invalid_tokens == 0
    assert cut.finished.stats.draft_tokens < plain.finished.stats.draft_tokens


async def test_guesses_that_are_right_all_pass() -> None:
    async with vetted(perfect(script())) as bench:
        plain, whole = await answer(bench), await answer(bench, JSON)
    assert whole.token_ids == ANSWER
    assert whole.finished.stats.accepted_tokens == plain.finished.stats.accepted_tokens


@pytest.mark.parametrize("width", [1, 3])
async def test_a_keyed_answer_is_the_same_whatever_is_cut(width: int) -> None:
    target = hashed_target(len(TOKENIZER))
    for made in (sampled(target), branching(script(), 0.5)):
        vetting = Vetting(PATIENT, PATIENT)
        bench = make_engine(target, {"a": made}, tokenizer=TOKENIZER, vetting=vetting)
        answers = []
        async with running(bench.engine):
            for validators in ((), (ValidatorChoice("revealing"),)):
                asked = ask(
                    PROMPT,
                    "a",
                    sampling=SamplingParams(seed=5),
                    stopping=Stopping(40, ignore_eos=True),
                    speculation=SpeculationParams(validators=validators, tree_width=width),
                )
                answers.append(await read(bench.engine, asked))
        await vetting.close()
        assert answers[0].token_ids == answers[1].token_ids
        assert answers[1].finished.stats.invalid_tokens > 0


async def test_under_a_lossy_policy_a_wrong_guess_does_not_get_through() -> None:
    def draft(session: DraftSession) -> Block:
        right = script().continuation(session.tokens, session.block_size)
        return session.block([*right[:2], *TOKENIZER.encode("~~")])

    async with vetted(draft, acceptance=LOSSY) as bench:
        without, cut = (
            await answer(bench),
            await answer(bench, JSON, ValidatorChoice("shouting", {"not": "~"})),
        )
    assert "~~" in without.text
    assert cut.token_ids == ANSWER
    assert cut.finished.stats.accepted_tokens > len(ANSWER) // 2
    assert cut.finished.stats.invalid_tokens > 0


async def test_of_a_tree_the_right_branches_stay() -> None:
    """After every token the wrong guess comes first; only where it is cut the right one can stand."""

    def draft(session: DraftSession) -> Block:
        one, two = script().continuation(session.tokens, 2)
        wrong = TOKENIZER.encode("~")[0]
        return session.block([wrong, one, wrong, two], parents=[-1, -1, 1, 1])

    async with vetted(draft, acceptance=LOSSY, tree_width=2, block_size=4) as bench:
        cut = await answer(bench, ValidatorChoice("shouting", {"not": "~"}))
        without = await answer(bench)
    assert cut.token_ids == ANSWER
    assert cut.finished.stats.accepted_tokens > len(ANSWER) // 2
    assert "~" in without.text


async def test_several_validators_cut_what_any_of_them_finds_wrong() -> None:
    async with vetted(half_wrong(script())) as bench:
        both = await answer(bench, JSON, ValidatorChoice("shouting", {"not": "a"}))
        one = await answer(bench, JSON)
    assert both.token_ids == one.token_ids == ANSWER
    assert both.finished.stats.invalid_tokens > one.finished.stats.invalid_tokens


@pytest.mark.parametrize(("name", "outcome"), [("failing", "failed"), ("dying", "failed"), ("stuck", "late")])
async def test_what_a_validator_that_fails_was_shown_stands(name: str, outcome: str) -> None:
    async with vetted(perfect(script()), seconds=0.1 if outcome == "late" else PATIENT) as bench:
        with outcomes(name, outcome) as seen:
            told = await answer(bench, ValidatorChoice(name))
        assert seen.by > 0
        assert told.token_ids == ANSWER
        assert told.finished.stats.invalid_tokens == 0


async def test_one_that_is_slow_costs_the_budget_a_few_times_and_then_nothing() -> None:
    budget = 0.1
    async with vetted(perfect(script()), seconds=budget, block_size=1) as bench:
        assert (await answer(bench, ValidatorChoice("every"))).token_ids == ANSWER
        sleeping = ValidatorChoice("sleeping", {"seconds": "0.3"})
        started = time.monotonic()
        with outcomes("sleeping", "late") as late:
            told = await answer(bench, sleeping)
        assert told.token_ids == ANSWER
        assert late.by == told.finished.stats.drafts > 15
        assert time.monotonic() - started < 12 * budget, "not the budget for each block"


async def test_one_that_hangs_is_killed_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_HUNG_SECONDS", 1.0)
    monkeypatch.setattr(client, "_RESTART_SECONDS", 0.0)
    async with vetted(perfect(script()), seconds=0.05) as bench:
        assert (await answer(bench, ValidatorChoice("stuck"))).token_ids == ANSWER
        await asyncio.sleep(1.2)
        with outcomes("json", "passed") as passed:
            for _ in range(20):
                assert (await answer(bench, JSON)).token_ids == ANSWER
                await asyncio.sleep(0.05)
        assert passed.by > 0


async def test_every_series_exists_from_the_start_and_no_other_does() -> None:
    await Vetting(PATIENT, PATIENT).close()
    samples = [sample for family in REGISTRY.collect() for sample in family.samples]
    seen = {
        (sample.labels["validator"], sample.labels["outcome"])
        for sample in samples
        if sample.name == "tandem_validator_outcomes_total"
    }
    assert seen == {(name, outcome) for name in registry.known() for outcome in OUTCOMES}


@pytest.mark.parametrize(
    ("choice", "field"),
    [
        (ValidatorChoice("cobol"), "speculation.validators"),
        (ValidatorChoice("json", {"schema": "1"}), "speculation.validators.json.schema"),
        (ValidatorChoice("regex", {}), "speculation.validators.regex.pattern"),
        (ValidatorChoice("every", {"a": "b"}), "speculation.validators.every.a"),
        (ValidatorChoice("unmakeable"), "speculation.validators.unmakeable"),
    ],
)
async def test_a_validator_that_cannot_be_made_is_refused_by_name(
    choice: ValidatorChoice, field: str
) -> None:
    async with vetted(perfect(script())) as bench:
        for _ in range(2):
            with pytest.raises(InvalidRequest) as refused:
                await answer(bench, choice)
            assert refused.value.field == field
    if choice.name == "cobol":
        assert "javascript, json" in refused.value.message


async def test_a_deployment_without_validators_says_so() -> None:
    bench = make_engine(script(), tokenizer=TOKENIZER)
    with pytest.raises(InvalidRequest) as refused:
        await bench.admission.sequence(ask(PROMPT, speculation=SpeculationParams(validators=(JSON,))))
    assert refused.value.field == "speculation.validators"
