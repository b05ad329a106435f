"""Everything that goes wrong before the first byte is an HTTP status with an OpenAI error object."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from common.errors import (
    Cancelled,
    FingerprintMismatch,
    Internal,
    InvalidRequest,
    NotFound,
    Overloaded,
    TandemError,
    TimedOut,
    Unavailable,
)
from tests.unit.gateway.fakes import FINISHED, STARTED, Backend, delta, direct_client, live_gateway, script
from tests.unit.gateway.requests import CHAT, COMPLETIONS, chat_body

BEFORE_THE_START: list[tuple[TandemError, int]] = [
    (InvalidRequest("the prompt has 9000 tokens, the context 8192", field="messages"), 400),
    (NotFound("no such adapter"), 404),
    (FingerprintMismatch("other vocabulary"), 409),
    (Overloaded("queue full"), 429),
    (Unavailable("starting"), 503),
    (TimedOut("too slow"), 504),
    (Cancelled("aborted by the scheduler"), 503),
    (Internal("it broke"), 500),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("error", "status"), BEFORE_THE_START)
async def test_an_error_before_the_start_is_a_status(
    client: httpx.AsyncClient, backend: Backend, error: TandemError, status: int, stream: bool
) -> None:
    backend.verify.script = script(error)
    response = await client.post(CHAT, json=chat_body(stream=stream))
    assert response.status_code == status
    assert response.headers["Content-Type"] == "application/json"
    assert response.json()["error"]["param"] == error.field
    assert response.headers.get("Retry-After") == ("1" if status == 429 else None)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_does_not_begin_with_its_start_is_a_500(
    client: httpx.AsyncClient, backend: Backend, stream: bool
) -> None:
    for steps in ([], [delta("a")], [FINISHED]):
        backend.verify.script = script(*steps)
        response = await client.post(CHAT, json=chat_body(stream=stream))
        assert response.status_code == 500
        assert response.json()["error"]["code"] == "internal_error"


async def test_an_unstreamed_answer_that_breaks_is_a_status(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    backend.verify.script = script(STARTED, delta("a"), Unavailable("killed"))
    response = await client.post(CHAT, json=chat_body())
    assert response.status_code == 503
    assert "choices" not in response.json()


async def test_an_unreachable_verify_service_is_a_503_without_addresses(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    await backend.verify_server.drain(0)
    response = await client.post(CHAT, json=chat_body(stream=True))
    assert response.status_code == 503
    assert "127.0.0.1" not in response.text


async def test_an_answer_past_the_request_timeout_is_a_504(backend: Backend) -> None:
    backend.verify.script = script(asyncio.Event())
    async with direct_client(backend, request_timeout_seconds=0.2) as client:
        assert (await client.post(CHAT, json=chat_body())).status_code == 504


async def test_an_unknown_model_is_a_404(client: httpx.AsyncClient, backend: Backend) -> None:
    responses = [
        await client.post(CHAT, json=chat_body(model="gpt-9")),
        await client.get("/v1/models/gpt-9"),
        await client.get("/v1/models/org/gpt-9"),
    ]
    for response in responses:
        assert response.status_code == 404
        error = response.json()["error"]
        assert (error["param"], error["code"]) == ("model", "model_not_found")
        assert error["type"] == "invalid_request_error"
    assert not backend.router.requests


async def test_an_unknown_route_is_a_404(client: httpx.AsyncClient) -> None:
    for path in ("/", "/v1/embeddings", "/v1/chat/completions/", "/docs", "/openapi.json"):
        response = await client.get(path)
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "not_found"
        assert response.headers["X-Request-Id"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", CHAT, "POST"),
        ("DELETE", COMPLETIONS, "POST"),
        ("POST", "/v1/models", "GET"),
        ("PUT", "/livez", "GET"),
    ],
)
async def test_a_wrong_method_is_a_405(
    client: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    response = await client.request(method, path)
    assert response.status_code == 405
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert response.headers["Allow"] == allowed


async def test_a_body_over_the_limit_is_a_413(client: httpx.AsyncClient, backend: Backend) -> None:
    messages = [{"role": "user", "content": "x" * 50_000}]
    response = await client.post(CHAT, json=chat_body(messages=messages))
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "payload_too_large"
    assert not backend.router.requests


async def test_a_body_over_the_limit_is_a_413_over_the_network(backend: Backend) -> None:
    async with live_gateway(backend, max_body_bytes=1000) as url, httpx.AsyncClient(base_url=url) as client:
        response = await client.post(CHAT, content=b"x" * 300_000)
        assert response.status_code == 413
        assert (await client.post(CHAT, json=chat_body())).status_code == 200


async def test_a_body_that_never_ends_is_a_504(backend: Backend) -> None:
    async with live_gateway(backend, request_timeout_seconds=0.2) as url:
        port = int(url.rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{{".encode())
        assert b" 504 " in await reader.readline()
        writer.close()
        await writer.wait_closed()


async def test_more_requests_than_slots_are_a_429_and_a_slot_comes_back(backend: Backend) -> None:
    finish = asyncio.Event()
    backend.verify.script = script(STARTED, finish, FINISHED)
    async with live_gateway(backend, max_concurrent=1) as url, httpx.AsyncClient(base_url=url) as client:
        async with client.stream("POST", CHAT, json=chat_body(stream=True)) as first:
            refused = await client.post(CHAT, json=chat_body())
            assert refused.status_code == 429
            assert refused.headers["Retry-After"] == "1"
            assert refused.json()["error"]["type"] == "rate_limit_error"
            assert (await client.get("/v1/models")).status_code == 200
            finish.set()
            await first.aread()
        assert (await client.post(CHAT, json=chat_body())).status_code == 200


async def test_a_refused_request_gives_its_slot_back(backend: Backend) -> None:
    async with direct_client(backend, max_concurrent=1) as client:
        for _ in range(3):
            assert (await client.post(CHAT, json={})).status_code == 400
        assert (await client.post(CHAT, json=chat_body())).status_code == 200
