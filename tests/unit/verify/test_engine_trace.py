"""The trace of an answer through the engine."""

from __future__ import annotations

import pytest

from common.trace import Fate, TraceStep
from common.types import Mode, Origin, SamplingParams, SpeculationParams, Stopping
from tests.support.scripted import (
    GREEDY,
    Answer,
    Bench,
    CharTokenizer,
    Propose,
    ask,
    collect,
    garbage,
    half_wrong,
    make_engine,
    perfect,
)
from tests.support.scripted.target import EOS, Script

TOKENIZER = CharTokenizer()
PROMPT = TOKENIZER.encode("count with me: ")
SCRIPT = Script(len(TOKENIZER))
SCRIPT.add(PROMPT, [*TOKENIZER.encode("one, two, three, four, five."), EOS])


async def answered(
    bench: Bench,
    *drafts: str,
    trace: bool = True,
    sampling: SamplingParams = GREEDY,
    mode: Mode | None = None,
) -> Answer:
    speculation = SpeculationParams(trace=trace, mode=mode)
    request = ask(
        PROMPT, *drafts, sampling=sampling, stopping=Stopping(max_tokens=40), speculation=speculation
    )
    return await collect(bench.engine, request)


def steps_of(answer: Answer) -> list[TraceStep]:
    steps = [delta.trace for delta in answer.deltas if delta.token_ids]
    assert None not in steps
    return [step for step in steps if step]


@pytest.mark.parametrize("draft", [perfect, half_wrong, garbage])
async def test_every_token_is_accounted_for_and_agrees_with_the_counters(draft: object) -> None:
    answer = await answered(make_engine(SCRIPT, {"draft": draft(SCRIPT)}), "draft")  # type: ignore[operator]
    steps, stats = steps_of(answer), answer.finished.stats
    places = [step.first_token for step in steps]
    lengths = [len(delta.token_ids) for delta in answer.deltas if delta.token_ids]
    assert places == [sum(lengths[:place]) for place in range(len(lengths))]
    text = b"".join(text for step in steps for text in step.texts)
    assert text == b"".join(map(TOKENIZER.token_bytes, answer.token_ids))
    guesses = [guess for step in steps for guess in step.guesses]
    fates = [guess.fate for guess in guesses]
    assert fates.count(Fate.ACCEPTED) == stats.accepted_tokens
    verified = (Fate.ACCEPTED, Fate.REJECTED, Fate.UNREACHED)
    assert sum(fates.count(fate) for fate in verified) == stats.draft_tokens
    assert all(
        (guess.p is None) == (guess.fate is not Fate.ACCEPTED and guess.fate is not Fate.REJECTED)
        for guess in guesses
    )
    assert {guess.source for guess in guesses} == {"pool-draft"}


async def test_accepted_guesses_and_corrections_are_those_of_the_provenance() -> None:
    answer = await answered(make_engine(SCRIPT, {"draft": half_wrong(SCRIPT)}), "draft")
    for delta in answer.deltas:
        if delta.trace is None:
            continue
        drafted = [
            token_id
            for token_id, provenance in zip(delta.token_ids, delta.provenance, strict=True)
            if provenance.origin is Origin.DRAFT
        ]
        assert drafted == [g.token_id for g in delta.trace.guesses if g.fate is Fate.ACCEPTED]
        rejected = any(guess.fate is Fate.REJECTED for guess in delta.trace.guesses)
        assert rejected == any(p.origin is Origin.CORRECTED for p in delta.provenance)


async def test_probabilities_are_the_targets() -> None:
    bench = make_engine(SCRIPT, {"draft": half_wrong(SCRIPT)})
    answer = await answered(bench, "draft", sampling=SamplingParams(temperature=1.0, top_k=1, seed=3))
    steps = steps_of(answer)
    assert all(p == 1.0 for step in steps for p in step.p)
    asked = [guess for step in steps for guess in step.guesses if guess.p is not None]
    assert {guess.p for guess in asked if guess.fate is Fate.REJECTED} == {0.0}
    assert {guess.p for guess in asked if guess.fate is Fate.ACCEPTED} == {1.0}


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("sampling", [GREEDY, SamplingParams(temperature=1.0, seed=11)])
async def test_a_trace_changes_no_token(mode: Mode, sampling: SamplingParams) -> None:
    drafts: dict[str, Propose] = {"draft": half_wrong(SCRIPT)}
    traced = await answered(make_engine(SCRIPT, drafts), "draft", sampling=sampling, mode=mode)
    plain = await answered(make_engine(SCRIPT, drafts), "draft", trace=False, sampling=sampling, mode=mode)
    assert traced.token_ids == plain.token_ids
    assert all(delta.trace is None for delta in plain.deltas)


async def test_without_drafts_there_are_steps_without_guesses() -> None:
    steps = steps_of(await answered(make_engine(SCRIPT)))
    assert steps
    assert not any(step.guesses for step in steps)
    assert all(step.batch == 1 and step.rows >= 1 for step in steps)
    assert [step.times.started for step in steps] == sorted(step.times.started for step in steps)
