"""A real model, the paged runner and a real JSON schema: what comes out fits, drafted or not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from common.constraint import Constraint, ConstraintKind
from common.grammar import Compiler
from common.model.block_manager import BlockManager
from common.model.runner import ModelRunner, model_thread
from common.model.tokenizer import Tokenizer
from common.types import SamplingParams, SpeculationParams, Stopping
from tests.support.models import tiny_model, tiny_tokenizer
from tests.support.scripted import (
    Answer,
    Propose,
    Script,
    ScriptedDrafts,
    ask,
    half_wrong,
    perfect,
    read,
    running,
)
from verify_service.admission import Admission
from verify_service.constraints import Constraints
from verify_service.drafts.hub import DraftHub
from verify_service.engine import Engine
from verify_service.scheduler import Scheduler
from verify_service.tags import TagReader

VOCABULARY = 100
BLOCKS = 128
TOKENIZER = Tokenizer(tiny_tokenizer(VOCABULARY))
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]{1,6}$"},
        "tags": {"type": "array", "items": {"enum": ["x", "yy", "é"]}, "minItems": 1, "maxItems": 3},
        "at": {
            "type": "object",
            "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 999}},
            "additionalProperties": False,
        },
    },
    "required": ["name", "tags"],
    "additionalProperties": False,
}
CONSTRAINT = Constraint(ConstraintKind.JSON_SCHEMA, json.dumps(SCHEMA))


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_model(11, vocabulary=VOCABULARY)


@pytest.fixture
def constraints() -> Iterator[Constraints]:
    assert TOKENIZER.bytewise
    yield Constraints(Compiler(TOKENIZER.bytewise, VOCABULARY), 60)


def make(model: Any, constraints: Constraints, drafts: dict[str, Propose]) -> Engine:
    admission = Admission(
        tokenizer=TOKENIZER,
        model_name="tiny",
        system_fingerprint="tiny",
        vocabulary_size=VOCABULARY,
        context_length=400,
        eos_token_ids=TOKENIZER.eos_token_ids,
        block_size=4,
        max_block_size=8,
        fact_checks=False,
        constraints=constraints,
    )
    hub = DraftHub(TOKENIZER.fingerprint, VOCABULARY, 5.0, ScriptedDrafts(drafts).make_link)
    return Engine(
        admission,
        Scheduler(BlockManager(BLOCKS), 16, 64, 256),
        ModelRunner(model, BLOCKS),
        model_thread(),
        drafts=hub,
        tags=TagReader(""),
    )


def assert_fits(answer: Answer) -> None:
    """By hand: what the schema says of each part."""
    value = json.loads(answer.text)
    assert answer.finished.reason.value == "stop"
    assert set(value) <= {"name", "tags", "at"}
    assert 1 <= len(value["name"]) <= 6
    assert value["name"].islower()
    assert 1 <= len(value["tags"]) <= 3
    assert set(value["tags"]) <= {"x", "yy", "é"}
    assert 0 <= value.get("at", {}).get("n", 0) <= 999


@pytest.mark.parametrize("sampling", [SamplingParams(temperature=0), SamplingParams(temperature=1.2, seed=3)])
async def test_an_answer_fits_its_schema_and_is_the_same_whatever_is_drafted(
    model: Any, constraints: Constraints, sampling: SamplingParams
) -> None:
    prompt = TOKENIZER.encode("give me an object: ")
    # A tiny random model likes white space so much that it would not come to an end.
    sampling = replace(sampling, logit_bias=dict.fromkeys(TOKENIZER.encode(" \n"), -100))
    script = Script(VOCABULARY)
    engine = make(model, constraints, {"good": perfect(script), "bad": half_wrong(script)})
    async with running(engine):
        asked = replace(ask(prompt, sampling=sampling, stopping=Stopping(380)), constraint=CONSTRAINT)
        plain = await read(engine, asked)
        assert_fits(plain)
        script.add(prompt, plain.token_ids)
        drafted = [
            replace(
                ask(prompt, draft, sampling=sampling, stopping=Stopping(380)),
                constraint=CONSTRAINT,
                speculation=SpeculationParams(block_size=size),
            )
            for draft in ("good", "bad")
            for size in (1, 3, 8)
        ]
        answers = await asyncio.gather(*(read(engine, request) for request in drafted))
    await constraints.close()
    for answer in answers:
        assert (answer.text, answer.token_ids) == (plain.text, plain.token_ids)
        assert answer.finished.stats.accepted_tokens > 0


async def test_sampled_answers_fit_their_schema(model: Any, constraints: Constraints) -> None:
    prompt = TOKENIZER.encode("give me an object: ")
    bias = dict.fromkeys(TOKENIZER.encode(" \n"), -100.0)
    request = replace(
        ask(
            prompt,
            sampling=SamplingParams(temperature=1.5, top_p=0.9, logit_bias=bias),
            stopping=Stopping(380),
        ),
        constraint=CONSTRAINT,
    )
    engine = make(model, constraints, {})
    async with running(engine):
        answers = await asyncio.gather(*(read(engine, request) for _ in range(12)))
    await constraints.close()
    for answer in answers:
        assert_fits(answer)
    assert len({answer.text for answer in answers}) > 6
