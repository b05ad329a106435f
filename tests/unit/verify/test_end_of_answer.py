"""Where an answer ends, and what of it is delivered, never depends on the drafts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from common.types import FinishReason, Mode, Origin, SamplingParams, SpeculationParams, Stopping, Usage
from tests.support.scripted import (
    EOS,
    Answer,
    Bench,
    Propose,
    Script,
    ask,
    garbage,
    half_wrong,
    make_engine,
    never,
    perfect,
    read,
    running,
)
from tests.support.scripted.endings import (
    CONTEXT,
    ENDINGS,
    TOKENIZER,
    Ending,
    Expected,
    reference,
    scripted,
)

DRAFTS: dict[str, Callable[[Script], Propose]] = {
    "perfect": perfect,
    "half_wrong": half_wrong,
    "garbage": garbage,
    "silent": lambda script: never,
}


def assert_as_expected(answer: Answer, expected: Expected, prompt: Sequence[int]) -> None:
    stats = answer.finished.stats
    assert answer.token_ids == expected.token_ids
    assert answer.text == expected.text
    assert answer.finished.reason is expected.reason
    assert answer.finished.usage == Usage(len(prompt), len(expected.token_ids))
    assert len(answer.provenance) == len(expected.token_ids)
    assert stats.accepted_tokens == sum(p.origin is Origin.DRAFT for p in answer.provenance)
    assert stats.accepted_tokens <= len(expected.token_ids)
    assert sum(stats.accepted_per_position) == stats.accepted_tokens
    assert sum(stats.drafted_per_position) == stats.draft_tokens


async def assert_all_offsets(bench: Bench, script: Script, ending: Ending, *drafts: str) -> int:
    """Answers with their end at every offset, in both modes, at once; how many guesses were accepted."""
    offsets = range(bench.admission.block_size + 2)
    cases = [(mode, *scripted(ending, offset)) for offset in offsets for mode in Mode]
    for _, prompt, planned, _ in cases:
        script.add(prompt, planned)
    requests = [
        ask(prompt, *drafts, stopping=stopping, speculation=SpeculationParams(mode=mode))
        for mode, prompt, _, stopping in cases
    ]
    async with running(bench.engine):
        answers = await asyncio.gather(*(read(bench.engine, request) for request in requests))
    for (_, prompt, planned, stopping), answer in zip(cases, answers, strict=True):
        assert_as_expected(answer, reference(planned, stopping, stopping.max_tokens or CONTEXT), prompt)
    bench.assert_idle()
    return sum(answer.finished.stats.accepted_tokens for answer in answers)


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("block_size", [1, 2, 4, 8])
@pytest.mark.parametrize("ending", ENDINGS)
async def test_an_answer_ends_at_the_same_token_wherever_its_end_falls_in_a_block(
    ending: str, block_size: int, draft: str
) -> None:
    script = Script(len(TOKENIZER))
    drafts = {"draft": DRAFTS[draft](script)}
    bench = make_engine(script, drafts, tokenizer=TOKENIZER, block_size=block_size, context_length=CONTEXT)
    accepted = await assert_all_offsets(bench, script, ENDINGS[ending], "draft")
    if draft != "half_wrong":
        assert (accepted > 0) == (draft == "perfect")


@pytest.mark.parametrize("ending", ENDINGS)
async def test_an_answer_without_drafts_ends_where_the_reference_says(ending: str) -> None:
    script = Script(len(TOKENIZER))
    bench = make_engine(script, tokenizer=TOKENIZER, block_size=8, context_length=CONTEXT)
    assert await assert_all_offsets(bench, script, ENDINGS[ending]) == 0


@pytest.mark.parametrize("draft", [*DRAFTS, None])
@pytest.mark.parametrize("block_size", [1, 2, 4, 8])
async def test_an_answer_that_fills_the_context_ends_exactly_there(
    block_size: int, draft: str | None
) -> None:
    script = Script(len(TOKENIZER))
    drafts = {"draft": DRAFTS[draft](script)} if draft else {}
    bench = make_engine(script, drafts, tokenizer=TOKENIZER, context_length=CONTEXT)
    async with running(bench.engine):
        for left in range(1, block_size + 4):
            prompt = TOKENIZER.ids("abcdefghijklm"[left], *"q" * (CONTEXT - left - 1))
            planned = TOKENIZER.ids(*"thequickbrownfoxjumps")
            script.add(prompt, planned)
            request = ask(prompt, *drafts, speculation=SpeculationParams(block_size=block_size))
            answer = await read(bench.engine, request)
            assert_as_expected(answer, reference(planned, request.stopping, left), prompt)
            assert answer.finished.reason is FinishReason.LENGTH
    bench.assert_idle()


@pytest.mark.parametrize("draft", [*DRAFTS, None])
@pytest.mark.parametrize("block_size", [1, 3, 8])
async def test_ignore_eos_goes_on_after_the_end_of_sequence_as_if_it_had_no_text(
    block_size: int, draft: str | None
) -> None:
    script = Script(len(TOKENIZER))
    drafts = {"draft": DRAFTS[draft](script)} if draft else {}
    bench = make_engine(script, drafts, tokenizer=TOKENIZER, block_size=block_size)
    prompt = TOKENIZER.ids(*"prompt")
    planned = [*TOKENIZER.ids(*"one"), EOS, *TOKENIZER.ids(*"two"), EOS, EOS, *TOKENIZER.ids(*"three")]
    script.add(prompt, planned)
    stopping = Stopping(max_tokens=len(planned), ignore_eos=True)
    async with running(bench.engine):
        answer = await read(bench.engine, ask(prompt, *drafts, stopping=stopping))
    assert_as_expected(answer, reference(planned, stopping, len(planned)), prompt)
    assert answer.text == "onetwothree"


@pytest.mark.parametrize("draft", DRAFTS)
async def test_a_seeded_answer_at_temperature_one_ends_the_same_with_and_without_drafts(draft: str) -> None:
    script = Script(len(TOKENIZER))
    prompt, planned, stopping = scripted(ENDINGS["stop string over two tokens"], 7)
    script.add(prompt, planned)
    bench = make_engine(script, {"draft": DRAFTS[draft](script)}, tokenizer=TOKENIZER)
    seeded = SamplingParams(temperature=1, seed=-3)
    async with running(bench.engine):
        plain = await read(bench.engine, ask(prompt, sampling=seeded, stopping=stopping))
        drafted = await read(bench.engine, ask(prompt, "draft", sampling=seeded, stopping=stopping))
    assert drafted.token_ids == plain.token_ids
    assert drafted.text == plain.text == "thequic"
    assert drafted.finished.reason is plain.finished.reason
    assert drafted.started.mode is Mode.KEYED
