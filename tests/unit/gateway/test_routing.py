"""The plan comes from the router, or is the last one it gave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from common import rpc
from common.errors import Internal, InvalidRequest, Overloaded, TandemError, TimedOut, Unavailable
from common.types import GenerateEvent
from protos.tandem.v1.verify_pb2_grpc import add_VerifyServiceServicer_to_server
from tests.unit.gateway.fakes import DRAFTS, STARTED, Backend, FakeVerify, script
from tests.unit.gateway.requests import CHAT, chat_body

PLAIN_ONLY = {"speculation": {"enabled": False}}


@pytest.mark.parametrize("error", [Unavailable("starting"), TimedOut("slow"), Internal("broke")])
async def test_without_the_router_the_last_plan_serves(
    client: httpx.AsyncClient, backend: Backend, error: TandemError
) -> None:
    await client.post(CHAT, json=chat_body())
    backend.router.error = error
    answer = await client.post(CHAT, json=chat_body())
    assert answer.status_code == 200
    assert answer.json()["tandem"]["drafts"] == ["small", "ngram"]
    assert answer.json()["tandem"]["prompt_class"] == "unclassified"
    assert backend.verify.requests[-1].drafts == DRAFTS


async def test_with_the_router_dead_the_last_plan_serves(client: httpx.AsyncClient, backend: Backend) -> None:
    await client.post(CHAT, json=chat_body())
    await backend.router_server.drain(0)
    assert (await client.post(CHAT, json=chat_body())).status_code == 200


async def test_without_the_router_and_any_plan_the_answer_is_a_503(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    await backend.router_server.drain(0)
    response = await client.post(CHAT, json=chat_body(stream=True))
    assert response.status_code == 503
    assert response.json()["error"]["message"] == "the router is unavailable"


async def test_a_request_without_speculation_does_not_forget_the_drafts(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    await client.post(CHAT, json=chat_body())
    backend.router.plan = replace(backend.router.plan, drafts=())
    await client.post(CHAT, json=chat_body(**PLAIN_ONLY))
    backend.router.error = Unavailable("gone")
    await client.post(CHAT, json=chat_body())
    await client.post(CHAT, json=chat_body(**PLAIN_ONLY))
    assert [request.drafts for request in backend.verify.requests] == [DRAFTS, (), DRAFTS, ()]


@pytest.mark.parametrize(
    ("error", "status"), [(InvalidRequest("no", field="model"), 400), (Overloaded("no"), 429)]
)
async def test_what_the_router_says_of_the_request_itself_reaches_the_client(
    client: httpx.AsyncClient, backend: Backend, error: TandemError, status: int
) -> None:
    await client.post(CHAT, json=chat_body())
    backend.router.error = error
    response = await client.post(CHAT, json=chat_body())
    assert response.status_code == status
    assert response.json()["error"]["param"] == error.field


@pytest.fixture
async def other_verify(backend: Backend) -> AsyncIterator[FakeVerify]:
    """A second verify replica, which the router names when told that the first one is unreachable."""
    fake, server = FakeVerify(), rpc.Server("127.0.0.1:0")
    add_VerifyServiceServicer_to_server(fake, server.grpc)
    await server.start()
    backend.router.other_plan = replace(backend.router.plan, verify_address=f"127.0.0.1:{server.port}")
    yield fake
    await server.drain(0)


@pytest.mark.parametrize("fields", [{}, {"n": 3}, {"stream": True}])
async def test_a_verify_replica_that_is_gone_costs_no_request(
    client: httpx.AsyncClient, backend: Backend, other_verify: FakeVerify, fields: dict[str, Any]
) -> None:
    await backend.verify_server.drain(0)
    response = await client.post(CHAT, json=chat_body(**fields))
    assert response.status_code == 200
    assert "Hel" in response.text
    assert len(other_verify.requests) == fields.get("n", 1)
    first, second = backend.router.requests
    assert first.unreachable_verify == ()
    assert second == replace(first, unreachable_verify=(backend.router.plan.verify_address,))


async def test_choices_that_a_replica_began_before_it_refused_one_are_ended_there(
    client: httpx.AsyncClient, backend: Backend, other_verify: FakeVerify
) -> None:
    scripts = iter([script(STARTED, asyncio.Event()), script(Unavailable("draining"))])

    def play_next() -> AsyncIterator[GenerateEvent]:
        return next(scripts)()

    backend.verify.script = play_next
    assert (await client.post(CHAT, json=chat_body(n=2))).status_code == 200
    await asyncio.wait_for(backend.verify.cancelled.wait(), 10)
    assert len(other_verify.requests) == 2


async def test_with_no_other_verify_replica_the_answer_is_a_503_after_one_try(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    backend.verify.script = script(Unavailable("draining"))
    response = await client.post(CHAT, json=chat_body())
    assert response.status_code == 503
    assert len(backend.verify.requests) == 1
    assert len(backend.router.requests) == 2


async def test_when_the_other_replica_is_gone_too_the_answer_is_a_503(
    client: httpx.AsyncClient, backend: Backend, other_verify: FakeVerify
) -> None:
    backend.verify.script = other_verify.script = script(Unavailable("draining"))
    assert (await client.post(CHAT, json=chat_body())).status_code == 503
    assert (len(backend.verify.requests), len(other_verify.requests)) == (1, 1)


@pytest.mark.parametrize("error", [Overloaded("full"), InvalidRequest("no", field="seed"), Internal("broke")])
async def test_what_is_not_for_want_of_the_replica_is_not_tried_on_another(
    client: httpx.AsyncClient, backend: Backend, other_verify: FakeVerify, error: TandemError
) -> None:
    backend.verify.script = script(error)
    assert (await client.post(CHAT, json=chat_body())).status_code == error.http_status
    assert other_verify.requests == []


async def test_the_gateway_is_ready_with_a_router_and_a_verify_replica(client: httpx.AsyncClient) -> None:
    assert (await client.get("/readyz")).status_code == 200
    assert (await client.get("/livez")).status_code == 200


@pytest.mark.parametrize(("router", "verify"), [(False, True), (True, False)])
async def test_the_gateway_is_not_ready_without_either(
    client: httpx.AsyncClient, backend: Backend, router: bool, verify: bool
) -> None:
    backend.router.ready, backend.router.verify_ready = router, verify
    assert (await client.get("/readyz")).status_code == 503
    assert (await client.get("/livez")).status_code == 200


async def test_the_gateway_is_not_ready_when_the_router_is_dead(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    await backend.router_server.drain(0)
    assert (await client.get("/readyz")).status_code == 503


async def test_many_who_ask_for_readiness_ask_the_router_once(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    await asyncio.gather(*(client.get("/readyz") for _ in range(10)))
    assert backend.router.status_calls == 1


async def test_readiness_is_asked_anew_after_a_second(client: httpx.AsyncClient, backend: Backend) -> None:
    assert (await client.get("/readyz")).status_code == 200
    backend.router.ready = False
    await asyncio.sleep(1.05)
    assert (await client.get("/readyz")).status_code == 503
