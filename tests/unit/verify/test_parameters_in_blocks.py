"""Every parameter holds at every position of a block: whatever is drafted, the answer is that without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from common.constraint import Constraint, ConstraintKind
from common.types import GenerateRequest, Mode, SamplingParams, SpeculationParams, Stopping
from tests.support.grammars import constraints
from tests.support.scripted import (
    EOS,
    Answer,
    Bench,
    CharTokenizer,
    Propose,
    Script,
    ask,
    garbage,
    half_wrong,
    make_engine,
    perfect,
    read,
    running,
)
from tests.unit.verify.support import hashed_target

TOKENIZER = CharTokenizer((*'abcdefghij {}[]:,.0123456789"', "ab", "cd", b"\xc3", b"\xa9"))
VOCABULARY = len(TOKENIZER)
PROMPTS = [TOKENIZER.encode(text) for text in ("a", "head", "a big bad cage", "ade 12")]
MOST = 18
TO_MOST = Stopping(max_tokens=MOST)
SEEDED = SamplingParams(temperature=0.9, seed=5)
GREEDY = SamplingParams(temperature=0)
SCHEMA = '{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["cd", "e"]}}}'


@dataclass(frozen=True)
class Case:
    sampling: SamplingParams = SEEDED
    stopping: Stopping = TO_MOST
    constraint: Constraint | None = None


def matching(kind: ConstraintKind, text: str, **changes: object) -> Case:
    return replace(Case(constraint=Constraint(kind, text)), **changes)  # type: ignore[arg-type]


CASES = {
    "greedy": Case(GREEDY),
    "temperature 2": Case(replace(SEEDED, temperature=2)),
    "top_k": Case(replace(SEEDED, top_k=3)),
    "top_p": Case(replace(SEEDED, top_p=0.7)),
    "min_p": Case(replace(SEEDED, min_p=0.2)),
    "repetition_penalty": Case(replace(SEEDED, repetition_penalty=1.8)),
    "repetition_penalty, greedy": Case(replace(GREEDY, repetition_penalty=1.8)),
    "presence_penalty": Case(replace(SEEDED, presence_penalty=2)),
    "frequency_penalty": Case(replace(SEEDED, frequency_penalty=-2)),
    "frequency_penalty, greedy": Case(replace(GREEDY, frequency_penalty=2)),
    "logit_bias": Case(replace(SEEDED, logit_bias={3: 4.0, 9: -100, EOS: 2.0})),
    "logit_bias, greedy": Case(replace(GREEDY, logit_bias={3: 4.0, 9: -100, EOS: 2.0})),
    "stop": Case(stopping=Stopping(MOST, ("b", "d ", "}["))),
    "stop_token_ids": Case(stopping=Stopping(MOST, stop_token_ids=frozenset({4, 7, 9}))),
    "ignore_eos": Case(replace(SEEDED, logit_bias={EOS: 4.0}), Stopping(MOST, ignore_eos=True)),
    "min_tokens": Case(replace(SEEDED, logit_bias={EOS: 30.0}), Stopping(MOST, min_tokens=7)),
    "min_tokens, greedy": Case(replace(GREEDY, logit_bias={EOS: 30.0}), Stopping(MOST, min_tokens=5)),
    "min_tokens and stop_token_ids": Case(
        replace(SEEDED, logit_bias={3: 30.0}), Stopping(MOST, stop_token_ids=frozenset({3}), min_tokens=6)
    ),
    "min_tokens and stop": Case(stopping=Stopping(MOST, ("a", "b", "c"), min_tokens=6)),
    "regex": matching(ConstraintKind.REGEX, "([ab]c|d){2,}e"),
    "regex, greedy": matching(ConstraintKind.REGEX, "([ab]c|d){2,}e", sampling=GREEDY),
    "regex and top_k": matching(ConstraintKind.REGEX, "[a-d]+e", sampling=replace(SEEDED, top_k=2)),
    "regex and everything": matching(
        ConstraintKind.REGEX,
        "[a-d]+e",
        sampling=replace(SEEDED, top_p=0.8, repetition_penalty=1.3, presence_penalty=1, logit_bias={5: 3.0}),
        stopping=Stopping(MOST, min_tokens=4),
    ),
    "regex that ends before min_tokens": matching(
        ConstraintKind.REGEX, "ab?c?", stopping=Stopping(MOST, min_tokens=9)
    ),
    "regex and ignore_eos": matching(
        ConstraintKind.REGEX,
        "a(bc)?(d|e)?",
        sampling=replace(SEEDED, logit_bias={EOS: 9.0}),
        stopping=Stopping(MOST, ignore_eos=True),
    ),
    "choice": matching(ConstraintKind.CHOICE, '["abcd", "cab", "é", "bad"]'),
    "schema": matching(ConstraintKind.JSON_SCHEMA, SCHEMA),
    "grammar": matching(ConstraintKind.GRAMMAR, 'start: "[" start* "]" | /[0-9]/'),
}
DRAFTS: dict[str, Callable[[Script], Propose]] = {
    "perfect": perfect,
    "half_wrong": half_wrong,
    "garbage": garbage,
}


def requests(case: Case, *drafts: str, mode: Mode | None = None) -> list[GenerateRequest]:
    """One for each prompt and block size; without drafts one for each prompt."""
    sizes = range(1, 7) if drafts else [1]
    return [
        replace(
            ask(prompt, *drafts, sampling=case.sampling, stopping=case.stopping),
            constraint=case.constraint,
            top_logprobs=3,
            speculation=SpeculationParams(block_size=size, mode=mode),
        )
        for size in sizes
        for prompt in PROMPTS
    ]


async def read_all(bench: Bench, asked: list[GenerateRequest]) -> list[Answer]:
    async with running(bench.engine):
        return await asyncio.gather(*(read(bench.engine, request) for request in asked))


def assert_same(answer: Answer, expected: Answer) -> None:
    assert answer.token_ids == expected.token_ids
    assert answer.text == expected.text
    assert answer.finished.reason is expected.finished.reason
    assert answer.finished.usage == expected.finished.usage
    assert answer.logprobs == expected.logprobs


@pytest.mark.parametrize("name", CASES)
async def test_a_parameter_gives_the_answer_without_drafts_at_every_offset_of_every_block(name: str) -> None:
    case = CASES[name]
    target = hashed_target(VOCABULARY)
    modes = list(Mode) if case.sampling.greedy else [None]
    async with constraints(TOKENIZER) as checked:
        plain = await read_all(make_engine(target, tokenizer=TOKENIZER, constraints=checked), requests(case))
        script = Script(VOCABULARY)
        for prompt, answer in zip(PROMPTS, plain, strict=True):
            script.add(prompt, answer.token_ids)
        for kind, make in DRAFTS.items():
            for mode in modes:
                bench = make_engine(target, {"draft": make(script)}, tokenizer=TOKENIZER, constraints=checked)
                answers = await read_all(bench, requests(case, "draft", mode=mode))
                for index, answer in enumerate(answers):
                    assert_same(answer, plain[index % len(PROMPTS)])
                bench.assert_idle()
                accepted = sum(answer.finished.stats.accepted_tokens for answer in answers)
                assert (accepted > 0) == (kind != "garbage")


async def answers_to(name: str) -> list[Answer]:
    async with constraints(TOKENIZER) as checked:
        bench = make_engine(hashed_target(VOCABULARY), tokenizer=TOKENIZER, constraints=checked)
        return await read_all(bench, requests(CASES[name]))


@pytest.mark.parametrize("name", ["min_tokens", "min_tokens, greedy", "min_tokens and stop_token_ids"])
async def test_an_answer_that_would_end_at_once_ends_right_after_its_least_tokens(name: str) -> None:
    fewest = CASES[name].stopping.min_tokens
    for answer in await answers_to(name):
        assert len(answer.token_ids) == fewest + 1
        assert answer.finished.reason.value == "stop"


async def test_a_complete_grammar_ends_the_answer_before_its_least_tokens() -> None:
    for answer in await answers_to("regex that ends before min_tokens"):
        assert answer.text == "abc"
        assert answer.token_ids[-1] == EOS
        assert answer.finished.reason.value == "stop"


async def test_ignoring_the_end_of_sequence_a_grammar_is_followed_as_far_as_it_goes() -> None:
    for answer in await answers_to("regex and ignore_eos"):
        assert answer.text in {"abcd", "abce"}
        assert answer.token_ids[-1] == EOS
        assert answer.finished.reason.value == "stop"


async def test_log_probabilities_are_those_of_the_raw_logits_whatever_is_done_to_them() -> None:
    target = hashed_target(VOCABULARY)
    for name in ("regex and everything", "logit_bias", "min_tokens"):
        for prompt, answer in zip(PROMPTS, await answers_to(name), strict=True):
            assert len(answer.logprobs) == len(answer.token_ids)
            for at, scored in enumerate(answer.logprobs):
                raw = target((*prompt, *answer.token_ids[:at])).log_softmax(-1)
                top = raw.topk(3)
                assert scored.chosen.token_id == answer.token_ids[at]
                assert scored.chosen.logprob == pytest.approx(float(raw[answer.token_ids[at]]), abs=1e-5)
                assert scored.chosen.text == TOKENIZER.token_bytes(answer.token_ids[at])
                assert [t.token_id for t in scored.top] == top.indices.tolist()
                assert [t.logprob for t in scored.top] == pytest.approx(top.values.tolist(), abs=1e-5)


async def test_a_grammar_that_grows_beyond_its_limits_ends_its_own_answer_and_no_other() -> None:
    rules = "".join(f'\nb{i}: "b"' for i in range(2500))
    text = 'start: "c" x\nx: ' + " | ".join(f'"a" b{i}' for i in range(2500)) + rules
    async with constraints(TOKENIZER) as checked:
        bench = make_engine(hashed_target(VOCABULARY), tokenizer=TOKENIZER, constraints=checked)
        hostile = replace(
            ask(PROMPTS[0]), constraint=Constraint(ConstraintKind.GRAMMAR, text, "structured_outputs.grammar")
        )
        async with running(bench.engine):
            results = await asyncio.gather(
                read(bench.engine, hostile),
                read(bench.engine, ask(PROMPTS[1], stopping=Stopping(max_tokens=MOST))),
                return_exceptions=True,
            )
        bench.assert_idle()
    assert getattr(results[0], "field", None) == "structured_outputs.grammar"
    assert isinstance(results[1], Answer)
