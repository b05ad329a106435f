"""Every field a client may set reaches the verify service with its meaning."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from common.constraint import Constraint, ConstraintKind
from common.types import (
    FactCheck,
    GenerateRequest,
    Message,
    Mode,
    PolicyChoice,
    RouteRequest,
    SamplingParams,
    SpeculationParams,
    Stopping,
    Terms,
    ValidatorChoice,
)
from tests.unit.gateway.fakes import DRAFTS, MODEL, Backend
from tests.unit.gateway.requests import CHAT, COMPLETIONS, chat_body, completion_body

PLAIN = GenerateRequest("request-1", (Message("user", "Hi"),), drafts=DRAFTS, terms=Terms("chat"))
ID = {"X-Request-Id": "request-1"}


async def sent(
    client: httpx.AsyncClient, backend: Backend, path: str, body: dict[str, Any]
) -> GenerateRequest:
    response = await client.post(path, json=body, headers=ID)
    assert response.status_code == 200, response.text
    return backend.verify.requests[-1]


SAMPLING: list[tuple[dict[str, Any], SamplingParams]] = [
    ({"temperature": 0}, SamplingParams(temperature=0)),
    ({"temperature": 0.7}, SamplingParams(temperature=0.7)),
    ({"top_p": 0.9}, SamplingParams(top_p=0.9)),
    ({"top_k": 40}, SamplingParams(top_k=40)),
    ({"min_p": 0.05}, SamplingParams(min_p=0.05)),
    ({"repetition_penalty": 1.1}, SamplingParams(repetition_penalty=1.1)),
    ({"frequency_penalty": -0.5}, SamplingParams(frequency_penalty=-0.5)),
    ({"presence_penalty": 1.5}, SamplingParams(presence_penalty=1.5)),
    ({"logit_bias": {"5": -100, "0": 1.5}}, SamplingParams(logit_bias={5: -100, 0: 1.5})),
    ({"seed": -(2**63)}, SamplingParams(seed=-(2**63))),
    ({"seed": 0}, SamplingParams(seed=0)),
]
STOPPING: list[tuple[dict[str, Any], Stopping]] = [
    ({"max_tokens": 3}, Stopping(max_tokens=3)),
    ({"max_completion_tokens": 3}, Stopping(max_tokens=3)),
    ({"max_tokens": 3, "max_completion_tokens": 3}, Stopping(max_tokens=3)),
    ({"stop": "END"}, Stopping(stop=("END",))),
    ({"stop": ["a", "b"]}, Stopping(stop=("a", "b"))),
    ({"stop": [str(i) for i in range(16)]}, Stopping(stop=tuple(str(i) for i in range(16)))),
    ({"stop_token_ids": [2, 0]}, Stopping(stop_token_ids=frozenset({0, 2}))),
    ({"ignore_eos": True}, Stopping(ignore_eos=True)),
    ({"min_tokens": 3}, Stopping(min_tokens=3)),
    ({"min_tokens": 3, "max_tokens": 3}, Stopping(min_tokens=3, max_tokens=3)),
]
SPECULATION: list[tuple[dict[str, Any], SpeculationParams]] = [
    ({"enabled": True}, SpeculationParams()),
    ({"mode": "rejection"}, SpeculationParams(mode=Mode.REJECTION)),
    ({"mode": "keyed"}, SpeculationParams(mode=Mode.KEYED)),
    ({"block_size": 64}, SpeculationParams(block_size=64)),
    ({"policy": "strict"}, SpeculationParams(policy=PolicyChoice("strict"))),
    (
        {"policy": {"name": "kl", "delta": 0.2, "probabilistic": True}},
        SpeculationParams(policy=PolicyChoice("kl", {"delta": 0.2, "probabilistic": True})),
    ),
    ({"validators": ["python"]}, SpeculationParams(validators=(ValidatorChoice("python"),))),
    (
        {"validators": [{"name": "json", "schema": {"type": "object"}}, {"name": "regex", "pattern": "a+"}]},
        SpeculationParams(
            validators=(
                ValidatorChoice("json", {"schema": '{"type": "object"}'}),
                ValidatorChoice("regex", {"pattern": "a+"}),
            )
        ),
    ),
    ({"tree_width": 8}, SpeculationParams(tree_width=8)),
    ({"fact_check": "annotate"}, SpeculationParams(fact_check=FactCheck.ANNOTATE)),
    ({"fact_check": "off"}, SpeculationParams()),
    (
        {"mode": "rejection", "fact_check": "annotate"},
        SpeculationParams(mode=Mode.REJECTION, fact_check=FactCheck.ANNOTATE),
    ),
    ({"mode": "keyed", "fact_check": "veto"}, SpeculationParams(mode=Mode.KEYED, fact_check=FactCheck.VETO)),
]
WITHOUT_EFFECT: list[dict[str, Any]] = [
    {},
    {"user": "someone"},
    {"n": 1},
    {"logprobs": False},
    {"min_tokens": 0},
    {"response_format": {"type": "text"}},
    {"stream": False},
    {"speculation": {}},
    {"logit_bias": {}},
    {"stop": []},
]


@pytest.mark.parametrize(("fields", "expected"), SAMPLING)
async def test_a_sampling_field_reaches_verify(
    client: httpx.AsyncClient, backend: Backend, fields: dict[str, Any], expected: SamplingParams
) -> None:
    assert await sent(client, backend, CHAT, chat_body(**fields)) == replace(PLAIN, sampling=expected)


@pytest.mark.parametrize(("fields", "expected"), STOPPING)
async def test_a_stopping_field_reaches_verify(
    client: httpx.AsyncClient, backend: Backend, fields: dict[str, Any], expected: Stopping
) -> None:
    assert await sent(client, backend, CHAT, chat_body(**fields)) == replace(PLAIN, stopping=expected)


@pytest.mark.parametrize(("fields", "expected"), SPECULATION)
async def test_a_speculation_field_reaches_verify(
    client: httpx.AsyncClient, backend: Backend, fields: dict[str, Any], expected: SpeculationParams
) -> None:
    body = chat_body(speculation=fields)
    assert await sent(client, backend, CHAT, body) == replace(PLAIN, speculation=expected)


SCHEMA = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"const": "é"}}}
ANY_OBJECT = '{"type": "object"}'
STRUCTURED: list[tuple[dict[str, Any], Constraint]] = [
    (
        {"response_format": {"type": "json_object"}},
        Constraint(ConstraintKind.JSON_SCHEMA, ANY_OBJECT, "response_format"),
    ),
    (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": SCHEMA, "strict": True, "description": None},
            }
        },
        Constraint(ConstraintKind.JSON_SCHEMA, json.dumps(SCHEMA), "response_format.json_schema.schema"),
    ),
    (
        {"structured_outputs": {"json": SCHEMA}},
        Constraint(ConstraintKind.JSON_SCHEMA, json.dumps(SCHEMA), "structured_outputs.json"),
    ),
    (
        {"structured_outputs": {"json": "{}"}},
        Constraint(ConstraintKind.JSON_SCHEMA, "{}", "structured_outputs.json"),
    ),
    (
        {"structured_outputs": {"regex": "a+"}},
        Constraint(ConstraintKind.REGEX, "a+", "structured_outputs.regex"),
    ),
    (
        {"structured_outputs": {"choice": ["a", "b"], "regex": None}},
        Constraint(ConstraintKind.CHOICE, '["a", "b"]', "structured_outputs.choice"),
    ),
    (
        {"structured_outputs": {"grammar": "start: x"}},
        Constraint(ConstraintKind.GRAMMAR, "start: x", "structured_outputs.grammar"),
    ),
    (
        {"structured_outputs": {"json_object": True}},
        Constraint(ConstraintKind.JSON_SCHEMA, ANY_OBJECT, "structured_outputs.json_object"),
    ),
]


@pytest.mark.parametrize(("fields", "expected"), STRUCTURED)
async def test_what_an_answer_must_match_reaches_verify_with_the_name_of_its_field(
    client: httpx.AsyncClient, backend: Backend, fields: dict[str, Any], expected: Constraint
) -> None:
    assert await sent(client, backend, CHAT, chat_body(**fields)) == replace(PLAIN, constraint=expected)


@pytest.mark.parametrize(
    ("fields", "expected"), [({"logprobs": True}, 0), ({"logprobs": True, "top_logprobs": 20}, 20)]
)
async def test_log_probabilities_asked_of_a_chat_reach_verify(
    client: httpx.AsyncClient, backend: Backend, fields: dict[str, Any], expected: int
) -> None:
    request = await sent(client, backend, CHAT, chat_body(**fields))
    assert request == replace(PLAIN, top_logprobs=expected)


@pytest.mark.parametrize("count", [0, 5, 20])
async def test_log_probabilities_asked_of_a_completion_reach_verify(
    client: httpx.AsyncClient, backend: Backend, count: int
) -> None:
    request = await sent(client, backend, COMPLETIONS, completion_body(logprobs=count))
    assert request == replace(PLAIN, prompt="Once", top_logprobs=count)


@pytest.mark.parametrize("fields", WITHOUT_EFFECT)
async def test_what_asks_for_nothing_leaves_the_defaults(
    client: httpx.AsyncClient, backend: Backend, fields: dict[str, Any]
) -> None:
    assert await sent(client, backend, CHAT, chat_body(**fields)) == PLAIN


async def test_a_veto_leaves_the_mode_to_the_verify_service(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    request = await sent(client, backend, CHAT, chat_body(speculation={"fact_check": "veto"}))
    assert request.speculation == SpeculationParams(fact_check=FactCheck.VETO)


async def test_speculation_turned_off_tells_verify_and_router_and_names_no_drafts(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    request = await sent(client, backend, CHAT, chat_body(speculation={"enabled": False}))
    assert request == replace(PLAIN, speculation=SpeculationParams(disabled=True), drafts=())
    assert backend.router.requests[-1].speculation_disabled


async def test_a_cache_salt_reaches_verify(client: httpx.AsyncClient, backend: Backend) -> None:
    request = await sent(client, backend, CHAT, chat_body(cache_salt="s" * 256))
    assert request == replace(PLAIN, cache_salt="s" * 256)


async def test_a_conversation_keeps_its_roles_and_joins_its_parts(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]},
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": []},
    ]
    request = await sent(client, backend, CHAT, chat_body(messages=messages))
    assert request.prompt == (
        Message("system", "Be brief."),
        Message("user", "Hello"),
        Message("assistant", "Hi"),
        Message("user", ""),
    )


@pytest.mark.parametrize("prompt", ["Once upon", "", [1, 2, 3], []])
async def test_a_prompt_may_be_text_or_token_ids(
    client: httpx.AsyncClient, backend: Backend, prompt: str | list[int]
) -> None:
    request = await sent(client, backend, COMPLETIONS, completion_body(prompt=prompt, echo=False))
    assert request == replace(PLAIN, prompt=prompt)


async def test_the_router_sees_the_head_of_the_last_user_turn(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    messages = [
        {"role": "user", "content": "first"},
        {"role": "user", "content": "x" * 300},
        {"role": "assistant", "content": "ok"},
    ]
    await sent(client, backend, CHAT, chat_body(messages=messages))
    (request,) = backend.router.requests
    assert replace(request, prefix_key="") == RouteRequest("request-1", MODEL, "x" * 200, 307)


@pytest.mark.parametrize(("prompt", "head", "characters"), [("y" * 201, "y" * 200, 201), ([1, 2], "", 0)])
async def test_the_router_sees_the_head_of_a_text_prompt(
    client: httpx.AsyncClient, backend: Backend, prompt: str | list[int], head: str, characters: int
) -> None:
    await sent(client, backend, COMPLETIONS, completion_body(prompt=prompt))
    (request,) = backend.router.requests
    assert replace(request, prefix_key="") == RouteRequest("request-1", MODEL, head, characters)


NULLABLE = [
    "stream", "stream_options", "temperature", "top_p", "top_k", "min_p", "repetition_penalty",
    "frequency_penalty", "presence_penalty", "logit_bias", "seed", "max_tokens", "max_completion_tokens",
    "stop", "stop_token_ids", "ignore_eos", "user", "n", "logprobs", "speculation",
    "cache_salt", "min_tokens", "top_logprobs", "response_format", "structured_outputs",
]  # fmt: skip


@pytest.mark.parametrize("field", NULLABLE)
async def test_an_explicit_null_means_absent(client: httpx.AsyncClient, backend: Backend, field: str) -> None:
    assert await sent(client, backend, CHAT, chat_body(**{field: None})) == PLAIN


async def test_explicit_nulls_within_speculation_mean_absent(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    nulls = dict.fromkeys(("enabled", "mode", "block_size", "fact_check"))
    assert await sent(client, backend, CHAT, chat_body(speculation=nulls)) == PLAIN
