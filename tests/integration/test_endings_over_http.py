"""Answers end at the same place over HTTP, streamed and not, wherever the end falls in a block."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from common import rpc
from common.types import DraftEndpoint, Plan, Stopping
from gateway.admission import Admission
from gateway.app import create_app
from gateway.config import Config
from gateway.router_client import RouterClient
from gateway.verify_client import VerifyClient
from protos.tandem.v1 import verify_pb2
from protos.tandem.v1.router_pb2_grpc import add_RouterServiceServicer_to_server
from protos.tandem.v1.verify_pb2_grpc import add_VerifyServiceServicer_to_server
from tests.support.scripted import Bench, Script, half_wrong, make_engine, perfect, running
from tests.support.scripted.endings import CONTEXT, ENDINGS, TOKENIZER, Expected, reference, scripted
from tests.unit.gateway.fakes import MODEL, FakeRouter
from verify_service.servicer import VerifyServicer

BLOCK_SIZE = 4
PROPOSALS = {"perfect": perfect, "half_wrong": half_wrong}


@dataclass(frozen=True)
class Delivered:
    text: str
    finish_reason: str
    completion_tokens: int


@asynccontextmanager
async def gateway_over(bench: Bench) -> AsyncIterator[httpx.AsyncClient]:
    """The real gateway before the real verify service, both over a scripted engine."""
    server = rpc.Server("127.0.0.1:0")
    servicer = VerifyServicer(bench.engine, bench.admission, verify_pb2.VerifyStatus())
    servicer.ready = True
    add_VerifyServiceServicer_to_server(servicer, server.grpc)
    address = f"127.0.0.1:{server.port}"
    plan = Plan("chat", address, (DraftEndpoint("draft", "draft"),), "scripted")
    add_RouterServiceServicer_to_server(FakeRouter(plan), server.grpc)
    await server.start()
    router, verify = RouterClient(address, 5), VerifyClient(30)
    app = create_app(Config(router_address=address), Admission(64), router, verify)
    transport = httpx.ASGITransport(app)
    try:
        async with (
            running(bench.engine),
            httpx.AsyncClient(transport=transport, base_url="http://x") as client,
        ):
            yield client
    finally:
        await verify.close()
        await router.close()
        await server.drain(0)


def body(prompt: Sequence[int], stopping: Stopping, *, stream: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "model": MODEL,
        "prompt": list(prompt),
        "temperature": 0,
        "max_tokens": stopping.max_tokens,
        "stop": list(stopping.stop) or None,
        "stop_token_ids": sorted(stopping.stop_token_ids) or None,
        "min_tokens": stopping.min_tokens,
        "stream": stream,
    }
    return fields | ({"stream_options": {"include_usage": True}} if stream else {})


def whole(response: httpx.Response) -> Delivered:
    answer = response.json()
    choice = answer["choices"][0]
    return Delivered(choice["text"], choice["finish_reason"], answer["usage"]["completion_tokens"])


def streamed(response: httpx.Response) -> Delivered:
    events = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    assert len(reasons) == 1
    text = "".join(choice["text"] for choice in choices)
    return Delivered(text, reasons[0], chunks[-1]["usage"]["completion_tokens"])


def wanted(expected: Expected) -> Delivered:
    return Delivered(expected.text, expected.reason.value, len(expected.token_ids))


@pytest.mark.parametrize("draft", PROPOSALS)
@pytest.mark.parametrize("ending", ENDINGS)
async def test_an_answer_ends_at_the_same_place_streamed_and_not(ending: str, draft: str) -> None:
    script = Script(len(TOKENIZER))
    proposals = {"draft": PROPOSALS[draft](script)}
    bench = make_engine(script, proposals, tokenizer=TOKENIZER, block_size=BLOCK_SIZE, context_length=CONTEXT)
    async with gateway_over(bench) as client:
        for offset in range(BLOCK_SIZE + 2):
            prompt, planned, stopping = scripted(ENDINGS[ending], offset)
            script.add(prompt, planned)
            expected = wanted(reference(planned, stopping, stopping.max_tokens or CONTEXT))
            for stream, read in ((False, whole), (True, streamed)):
                response = await client.post("/v1/completions", json=body(prompt, stopping, stream=stream))
                assert response.status_code == 200, response.text
                assert read(response) == expected, f"offset {offset}, stream {stream}"
    bench.assert_idle()
