"""Answers that come as one JSON object."""

from __future__ import annotations

import re
from dataclasses import replace

import httpx
import pytest

from common.types import Finished, FinishReason, SpeculationStats
from tests.unit.gateway.fakes import FINISHED, FLAG, MODEL, STARTED, Backend, delta, script
from tests.unit.gateway.requests import CHAT, COMPLETIONS, chat_body, completion_body

TANDEM = {
    "prompt_class": "chat",
    "mode": "rejection",
    "policy": "lossless",
    "drafts": ["small", "ngram"],
    "speculation": {
        "steps": 4,
        "drafts": 2,
        "draft_tokens": 8,
        "accepted_tokens": 3,
        "mean_acceptance_length": 2.5,
        "draft_acceptance_rate": 0.375,
        "accepted_per_position": [2, 1, 0, 0],
        "drafted_per_position": [2, 2, 2, 2],
        "missed_waits": 1,
        "vetoed_tokens": 1,
        "tags_missing": 2,
        "invalid_tokens": 3,
    },
    "deviation": None,
    "annotations": [],
}
USAGE = {
    "prompt_tokens": 5,
    "completion_tokens": 2,
    "total_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 3},
}


async def test_a_chat_answer_is_an_openai_chat_completion(client: httpx.AsyncClient) -> None:
    response = await client.post(CHAT, json=chat_body(), headers={"X-Request-Id": "r1"})
    answer = response.json()
    assert response.status_code == 200
    assert isinstance(answer.pop("created"), int)
    assert answer == {
        "id": "chatcmpl-r1",
        "object": "chat.completion",
        "model": MODEL,
        "system_fingerprint": "fp-1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello"},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": USAGE,
        "tandem": TANDEM,
    }


async def test_a_completion_is_an_openai_text_completion(client: httpx.AsyncClient) -> None:
    response = await client.post(COMPLETIONS, json=completion_body(), headers={"X-Request-Id": "r1"})
    answer = response.json()
    assert isinstance(answer.pop("created"), int)
    assert answer == {
        "id": "cmpl-r1",
        "object": "text_completion",
        "model": MODEL,
        "system_fingerprint": "fp-1",
        "choices": [{"index": 0, "text": "Hello", "logprobs": None, "finish_reason": "stop"}],
        "usage": USAGE,
        "tandem": TANDEM,
    }


async def test_an_answer_without_drafts_has_no_acceptance(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    stats = SpeculationStats(steps=2)
    backend.verify.script = script(STARTED, Finished(FinishReason.LENGTH, FINISHED.usage, stats))
    answer = (await client.post(CHAT, json=chat_body(speculation={"enabled": False}))).json()
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["tandem"]["drafts"] == []
    assert answer["tandem"]["speculation"]["mean_acceptance_length"] is None
    assert answer["tandem"]["speculation"]["draft_acceptance_rate"] is None


async def test_annotations_travel_with_the_answer(client: httpx.AsyncClient, backend: Backend) -> None:
    backend.verify.script = script(STARTED, delta("Paris", FLAG), delta("", FLAG), FINISHED)
    answer = (await client.post(CHAT, json=chat_body())).json()
    flag = {
        "choice": 0,
        "first_token": 0,
        "token_count": 2,
        "text": "Paris has 90 people",
        "verdict": "contradicted",
        "rule": "population",
        "evidence": "2.1 million",
    }
    assert answer["tandem"]["annotations"] == [flag, flag]


@pytest.mark.parametrize("request_id", ["abc", "A-b_c.9", "x" * 128])
async def test_a_sane_request_id_is_kept_through_to_verify(
    client: httpx.AsyncClient, backend: Backend, request_id: str
) -> None:
    response = await client.post(CHAT, json=chat_body(), headers={"X-Request-Id": request_id})
    assert response.headers["X-Request-Id"] == request_id
    assert backend.verify.requests[0].request_id == request_id
    assert backend.router.requests[0].request_id == request_id


@pytest.mark.parametrize("request_id", [None, "", "x" * 129, "a b", "a/b", "é".encode()])
async def test_any_other_request_id_is_replaced(
    client: httpx.AsyncClient, backend: Backend, request_id: str | bytes | None
) -> None:
    headers = {} if request_id is None else {b"X-Request-Id": request_id}
    response = await client.post(CHAT, json=chat_body(), headers=headers)  # type: ignore[arg-type]
    assert re.fullmatch("[0-9a-f]{32}", response.headers["X-Request-Id"])
    assert backend.verify.requests[0].request_id == response.headers["X-Request-Id"]


async def test_the_models_are_listed_and_found_by_name(client: httpx.AsyncClient) -> None:
    listed = (await client.get("/v1/models")).json()
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == [MODEL]
    assert (await client.get(f"/v1/models/{MODEL}")).json() == listed["data"][0]


async def test_the_answer_names_the_mode_that_verify_chose(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    keyed = replace(STARTED, mode=type(STARTED.mode).KEYED)
    backend.verify.script = script(keyed, FINISHED)
    answer = (await client.post(CHAT, json=chat_body(seed=1))).json()
    assert answer["tandem"]["mode"] == "keyed"


async def test_nothing_of_a_prompt_or_an_answer_is_logged(
    client: httpx.AsyncClient, backend: Backend, capfd: pytest.CaptureFixture[str]
) -> None:
    backend.verify.script = script(STARTED, delta("classified"), FINISHED)
    messages = [{"role": "user", "content": "confidential"}]
    await client.post(CHAT, json=chat_body(messages=messages))
    await client.post(CHAT, json=chat_body(messages=messages, top_k="confidential"))
    logged = "".join(capfd.readouterr())
    assert "request_id" in logged
    assert "confidential" not in logged
    assert "classified" not in logged
