"""The draft trace over HTTP, whole and streamed."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from common.trace import Fate, TraceFlag, TraceGuess, TraceStep, TraceTimes
from common.types import Delta, Origin, Provenance
from tests.unit.gateway.fakes import FINISHED, STARTED, Backend, script
from tests.unit.gateway.requests import CHAT, chat_body, sse_objects

ASKED = chat_body(speculation={"trace": True})

STEP = TraceStep(
    first_token=0,
    texts=(b"Pa", b"\xe2"),
    p=(0.912345, 1.0),
    times=TraceTimes(0.5, 0.001, 0.0123456789, 0.0, 0.002, 0.004),
    batch=2,
    rows=9,
    guesses=(
        TraceGuess(7, b"Pa", -1, "small/ngram", Fate.ACCEPTED, q=1.0, p=0.912345, confidence=0.5),
        TraceGuess(8, b"ris", 0, "small/ngram", Fate.VETOED),
    ),
    model_version="1",
    ahead=True,
    flags=(TraceFlag(1, 2, "Paris has 90 people", "population", "2.1 million"),),
)
TRACED = Delta((7, 9), (Provenance(Origin.DRAFT, "small/ngram"), Provenance(Origin.BONUS)), trace=STEP)
SHOWN = {
    "choice": 0,
    "first_token": 0,
    "tokens": [
        {"token_id": 7, "text": "Pa", "origin": "draft", "source": "small/ngram", "p": 0.9123},
        {"token_id": 9, "text": "�", "origin": "bonus", "source": "", "p": 1.0},
    ],
    "guesses": [
        {
            "token_id": 7,
            "text": "Pa",
            "parent": -1,
            "source": "small/ngram",
            "fate": "accepted",
            "q": 1.0,
            "p": 0.9123,
            "confidence": 0.5,
        },
        {"token_id": 8, "text": "ris", "parent": 0, "source": "small/ngram", "fate": "vetoed"},
    ],
    "model_version": "1",
    "ahead": True,
    "flags": [
        {
            "first_guess": 1,
            "end_guess": 2,
            "text": "Paris has 90 people",
            "rule": "population",
            "evidence": "2.1 million",
        }
    ],
    "seconds": {
        "started": 0.5,
        "wait": 0.001,
        "model": 0.012346,
        "accept": 0.0,
        "drafting": 0.002,
        "round_trip": 0.004,
    },
    "batch": 2,
    "rows": 9,
}


@pytest.fixture
def traced(backend: Backend) -> Backend:
    backend.verify.script = script(STARTED, TRACED, replace(FINISHED, trace_dropped=3))
    return backend


async def test_a_whole_answer_carries_every_step(client: httpx.AsyncClient, traced: Backend) -> None:
    tandem = (await client.post(CHAT, json=ASKED)).json()["tandem"]
    assert traced.verify.requests[0].speculation.trace
    assert tandem["trace"] == [SHOWN]
    assert tandem["trace_dropped"] == 3


async def test_a_streamed_answer_carries_each_step_as_it_comes(
    client: httpx.AsyncClient, traced: Backend
) -> None:
    *chunks, done = sse_objects((await client.post(CHAT, json={**ASKED, "stream": True})).text)
    assert done == "[DONE]"
    assert [chunk["tandem"] for chunk in chunks if "tandem" in chunk][:-1] == [{"trace": [SHOWN]}]
    assert chunks[-1]["tandem"]["trace_dropped"] == 3


async def test_who_does_not_ask_sees_no_trace(client: httpx.AsyncClient, backend: Backend) -> None:
    tandem = (await client.post(CHAT, json=chat_body())).json()["tandem"]
    assert not {"trace", "trace_dropped"} & tandem.keys()
    assert not backend.verify.requests[0].speculation.trace


async def test_a_trace_of_other_tokens_is_the_replicas_fault(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    backend.verify.script = script(STARTED, replace(TRACED, trace=replace(STEP, p=(0.5,))), FINISHED)
    response = await client.post(CHAT, json=ASKED)
    assert response.status_code == 500
