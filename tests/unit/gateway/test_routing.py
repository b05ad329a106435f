"""The plan comes from the router, or is the last one it gave."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import httpx
import pytest

from common.errors import Internal, InvalidRequest, Overloaded, TandemError, TimedOut, Unavailable
from common.types import Terms
from tests.support.valkey import free_port
from tests.unit.gateway.fakes import DRAFTS, Backend
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


@pytest.mark.parametrize("stream", [False, True])
async def test_a_verify_replica_that_is_not_there_costs_another_plan_and_no_request(
    client: httpx.AsyncClient, backend: Backend, stream: bool
) -> None:
    backend.router.dead = f"127.0.0.1:{free_port()}"
    response = await client.post(CHAT, json=chat_body(stream=stream))
    assert response.status_code == 200
    assert [request.avoid for request in backend.router.requests] == [(), (backend.router.dead,)]


async def test_where_there_is_no_other_replica_the_answer_is_a_503(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    backend.router.plan = replace(backend.router.plan, verify_address=f"127.0.0.1:{free_port()}")
    response = await client.post(CHAT, json=chat_body())
    assert response.status_code == 503
    assert len(backend.router.requests) == 2


async def test_the_terms_of_the_plan_reach_the_verify_service(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    backend.router.plan = replace(backend.router.plan, largest_block=3, shadow=True)
    await client.post(CHAT, json=chat_body())
    assert backend.verify.requests[-1].terms == Terms("chat", 3, True)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_decision_is_explained_to_who_asks(
    client: httpx.AsyncClient, backend: Backend, stream: bool
) -> None:
    backend.router.plan = replace(backend.router.plan, reason="first\r\nmatch \u4e2d")
    asked = await client.post(CHAT, json=chat_body(stream=stream), headers={"x-tandem-route": "1"})
    assert asked.headers["x-tandem-route"] == "first??match ?"
    assert "x-tandem-route" not in (await client.post(CHAT, json=chat_body(stream=stream))).headers


async def test_prompts_that_begin_alike_have_one_key_and_others_another(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    system = {"role": "system", "content": "Be brief."}
    first, answer = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}
    bodies = [
        chat_body(messages=[system, first]),
        chat_body(messages=[system, first, answer, {"role": "user", "content": "And now?"}]),
        chat_body(messages=[system, {"role": "user", "content": "Ho"}]),
        chat_body(messages=[system, first], cache_salt="mine"),
    ]
    for body in bodies:
        await client.post(CHAT, json=body)
    one, turn, other, salted = (request.prefix_key for request in backend.router.requests)
    assert one == turn
    assert len({one, other, salted}) == 3
