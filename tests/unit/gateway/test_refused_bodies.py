"""What is not honoured is refused with a 400 that names it, before anything is routed."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.unit.gateway.fakes import MODEL, Backend
from tests.unit.gateway.requests import CHAT, COMPLETIONS, chat_body, completion_body

SCHEMA = {"name": "a", "schema": {"type": "object"}}


def schema_format(json_schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": json_schema}


UNKNOWN = [
    "audio", "best_of", "function_call", "functions", "guided_json", "metadata", "modalities",
    "parallel_tool_calls", "prediction", "prompt", "reasoning_effort", "service_tier",
    "store", "suffix", "tool_choice", "tools", "typo",
]  # fmt: skip

WRONG: list[tuple[str, dict[str, Any]]] = [
    ("model", {"model": None}),
    ("model", {"model": 1}),
    ("messages", {"messages": None}),
    ("messages", {"messages": []}),
    ("messages", {"messages": "Hi"}),
    ("messages.0", {"messages": ["Hi"]}),
    ("messages.0.role", {"messages": [{"content": "Hi"}]}),
    ("messages.0.role", {"messages": [{"role": "tool", "content": "Hi"}]}),
    ("messages.0.role", {"messages": [{"role": "developer", "content": "Hi"}]}),
    ("messages.0.content", {"messages": [{"role": "user"}]}),
    ("messages.0.content", {"messages": [{"role": "user", "content": None}]}),
    ("messages.0.content", {"messages": [{"role": "user", "content": 5}]}),
    ("messages.0.content.0.type", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
    ("messages.0.content.0.text", {"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]}),
    ("messages.0.name", {"messages": [{"role": "user", "content": "Hi", "name": "bob"}]}),
    ("messages.0.tool_calls", {"messages": [{"role": "assistant", "content": "Hi", "tool_calls": []}]}),
    ("stream", {"stream": "true"}),
    ("stream", {"stream": 1}),
    ("stream_options", {"stream_options": {"include_usage": True}}),
    ("stream_options.include_usage", {"stream": True, "stream_options": {"include_usage": 1}}),
    ("stream_options.foo", {"stream": True, "stream_options": {"foo": 1}}),
    ("temperature", {"temperature": True}),
    ("temperature", {"temperature": "1"}),
    ("temperature", {"temperature": 2.1}),
    ("temperature", {"temperature": -0.1}),
    ("temperature", {"temperature": 10**400}),
    ("top_p", {"top_p": 0}),
    ("top_p", {"top_p": 1.01}),
    ("top_k", {"top_k": -1}),
    ("top_k", {"top_k": 1.0}),
    ("top_k", {"top_k": True}),
    ("top_k", {"top_k": 2**32}),
    ("min_p", {"min_p": 1.5}),
    ("repetition_penalty", {"repetition_penalty": 0}),
    ("frequency_penalty", {"frequency_penalty": 3}),
    ("presence_penalty", {"presence_penalty": -3}),
    ("logit_bias", {"logit_bias": [1]}),
    ("logit_bias", {"logit_bias": {"5": 101}}),
    ("logit_bias.5", {"logit_bias": {"5": "1"}}),
    ("logit_bias.x", {"logit_bias": {"x": 1}}),
    ("logit_bias.05", {"logit_bias": {"05": 1}}),
    ("logit_bias.4294967296", {"logit_bias": {"4294967296": 1}}),
    ("seed", {"seed": 2**63}),
    ("seed", {"seed": 10**200}),
    ("seed", {"seed": 1.5}),
    ("max_tokens", {"max_tokens": 0}),
    ("max_tokens", {"max_tokens": 2**32}),
    ("max_tokens", {"max_tokens": False}),
    ("max_completion_tokens", {"max_completion_tokens": 0}),
    ("max_tokens", {"max_tokens": 1, "max_completion_tokens": 2}),
    ("stop", {"stop": 5}),
    ("stop", {"stop": ""}),
    ("stop", {"stop": ["a", ""]}),
    ("stop", {"stop": ["a"] * 17}),
    ("stop.1", {"stop": ["a", 1]}),
    ("stop_token_ids", {"stop_token_ids": 2}),
    ("stop_token_ids.0", {"stop_token_ids": [-1]}),
    ("stop_token_ids.0", {"stop_token_ids": [2**32]}),
    ("ignore_eos", {"ignore_eos": 0}),
    ("user", {"user": 5}),
    ("min_tokens", {"min_tokens": -1}),
    ("min_tokens", {"min_tokens": 1.0}),
    ("min_tokens", {"min_tokens": 4, "max_tokens": 3}),
    ("n", {"n": 0}),
    ("n", {"n": 17}),
    ("n", {"n": True}),
    ("logprobs", {"logprobs": 0}),
    ("top_logprobs", {"top_logprobs": 2}),
    ("top_logprobs", {"logprobs": False, "top_logprobs": 2}),
    ("top_logprobs", {"logprobs": True, "top_logprobs": 21}),
    ("top_logprobs", {"logprobs": True, "top_logprobs": -1}),
    ("response_format", {"response_format": "json_object"}),
    ("response_format.type", {"response_format": {}}),
    ("response_format.type", {"response_format": {"type": "xml"}}),
    ("response_format.json_schema", {"response_format": {"type": "json_schema"}}),
    ("response_format.json_schema", {"response_format": {"type": "json_object", "json_schema": SCHEMA}}),
    ("response_format.schema", {"response_format": {"type": "json_object", "schema": {}}}),
    ("response_format.json_schema.schema", {"response_format": schema_format({"name": "a"})}),
    ("response_format.json_schema.schema", {"response_format": schema_format({"name": "a", "schema": []})}),
    ("response_format.json_schema.name", {"response_format": schema_format({"schema": {}})}),
    ("response_format.json_schema.name", {"response_format": schema_format({"name": "a b", "schema": {}})}),
    ("structured_outputs", {"structured_outputs": {}}),
    ("structured_outputs", {"structured_outputs": {"json_object": False}}),
    ("structured_outputs", {"structured_outputs": {"regex": "a", "choice": ["a"]}}),
    ("structured_outputs.regex", {"structured_outputs": {"regex": ""}}),
    ("structured_outputs.grammar", {"structured_outputs": {"grammar": 5}}),
    ("structured_outputs.choice", {"structured_outputs": {"choice": "yes"}}),
    ("structured_outputs.choice.0", {"structured_outputs": {"choice": [1]}}),
    ("structured_outputs.lark", {"structured_outputs": {"lark": "start: x"}}),
    (
        "structured_outputs",
        {"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}},
    ),
    ("cache_salt", {"cache_salt": 5}),
    ("cache_salt", {"cache_salt": ""}),
    ("cache_salt", {"cache_salt": "s" * 257}),
    ("speculation", {"speculation": True}),
    ("speculation.enabled", {"speculation": {"enabled": 1}}),
    ("speculation.mode", {"speculation": {"mode": "fast"}}),
    ("speculation.mode", {"speculation": {"mode": "keyed", "policy": "strict"}}),
    ("speculation.trace", {"speculation": {"trace": "yes"}}),
    ("speculation.policy", {"speculation": {"policy": 3}}),
    ("speculation.policy.name", {"speculation": {"policy": {"delta": 0.2}}}),
    ("speculation.policy.delta", {"speculation": {"policy": {"name": "kl", "delta": "0.2"}}}),
    ("speculation.validators", {"speculation": {"validators": ["python"] * 9}}),
    ("speculation.mode", {"speculation": {"mode": "rejection", "fact_check": "veto"}}),
    ("speculation.block_size", {"speculation": {"block_size": 0}}),
    ("speculation.block_size", {"speculation": {"block_size": 65}}),
    ("speculation.fact_check", {"speculation": {"fact_check": "maybe"}}),
    ("speculation.depth", {"speculation": {"depth": 3}}),
]

WRONG_COMPLETIONS: list[tuple[str, dict[str, Any]]] = [
    ("prompt", {"prompt": None}),
    ("prompt", {"prompt": 5}),
    ("prompt", {"prompt": ["one", "two"]}),
    ("prompt", {"prompt": ["one"]}),
    ("prompt", {"prompt": [[1, 2]]}),
    ("prompt", {"prompt": [1, True]}),
    ("prompt", {"prompt": [-1]}),
    ("prompt", {"prompt": [2**32]}),
    ("prompt", {"prompt": [1.0]}),
    ("echo", {"echo": True}),
    ("messages", {"messages": []}),
    ("suffix", {"suffix": "end"}),
    ("logprobs", {"logprobs": True}),
    ("logprobs", {"logprobs": 21}),
    ("top_logprobs", {"top_logprobs": 1}),
]


def assert_refused(response: httpx.Response, backend: Backend, param: str | None) -> None:
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert (error["param"], error["type"]) == (param, "invalid_request_error")
    assert error["message"]
    assert not backend.router.requests


@pytest.mark.parametrize("value", [None, False, {}, "x"])
@pytest.mark.parametrize("field", UNKNOWN)
async def test_a_field_that_is_not_honoured_is_refused_by_name(
    client: httpx.AsyncClient, backend: Backend, field: str, value: object
) -> None:
    response = await client.post(CHAT, json=chat_body(**{field: value}))
    assert_refused(response, backend, field)
    assert field in response.json()["error"]["message"]


@pytest.mark.parametrize(("param", "fields"), WRONG)
async def test_a_wrong_value_is_refused_by_the_name_of_its_field(
    client: httpx.AsyncClient, backend: Backend, param: str, fields: dict[str, Any]
) -> None:
    assert_refused(await client.post(CHAT, json=chat_body(**fields)), backend, param)


@pytest.mark.parametrize(("param", "fields"), WRONG_COMPLETIONS)
async def test_a_wrong_value_for_completions_is_refused_by_the_name_of_its_field(
    client: httpx.AsyncClient, backend: Backend, param: str, fields: dict[str, Any]
) -> None:
    assert_refused(await client.post(COMPLETIONS, json=completion_body(**fields)), backend, param)


@pytest.mark.parametrize("field", ["temperature", "top_p", "min_p", "top_k", "seed", "max_tokens", "n"])
@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_a_number_that_is_not_finite_is_refused(
    client: httpx.AsyncClient, backend: Backend, field: str, value: str
) -> None:
    message = '{"role": "user", "content": "Hi"}'
    body = f'{{"model": "{MODEL}", "messages": [{message}], "{field}": {value}}}'
    assert_refused(await client.post(CHAT, content=body), backend, field)


@pytest.mark.parametrize("field", ["model", "messages"])
async def test_a_missing_field_is_named(client: httpx.AsyncClient, backend: Backend, field: str) -> None:
    body = chat_body()
    del body[field]
    assert_refused(await client.post(CHAT, json=body), backend, field)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"{} {}", b'"\\ud800"', b'{"a":' * 500, b"nul"])
async def test_a_body_that_is_not_json_is_refused(
    client: httpx.AsyncClient, backend: Backend, body: bytes
) -> None:
    response = await client.post(CHAT, content=body)
    assert_refused(response, backend, None)
    assert "not JSON" in response.json()["error"]["message"]


@pytest.mark.parametrize("body", [b"[]", b"null", b"5", b'"text"'])
async def test_json_that_is_no_object_is_refused(
    client: httpx.AsyncClient, backend: Backend, body: bytes
) -> None:
    assert_refused(await client.post(CHAT, content=body), backend, None)


async def test_the_name_of_a_refused_field_is_cut_short(client: httpx.AsyncClient, backend: Backend) -> None:
    response = await client.post(CHAT, json=chat_body(**{"x" * 10_000: 1}))
    assert_refused(response, backend, "x" * 200)


async def test_a_message_that_verify_would_get_half_of_is_refused(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    body = b'{"model": "m", "messages": [{"role": "user", "content": "\\ud800"}]}'
    assert_refused(await client.post(CHAT, content=body), backend, None)
