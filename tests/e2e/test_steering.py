"""A router that learns, switches that hold within a second, and an autopilot, in a real stack."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest

from tandem.local import LocalStack
from tandem.ready import wait_ready
from tandem.stack import HOST
from tests.e2e.client import Client, Reply
from tests.e2e.conftest import DRAFTS
from tests.e2e.prompts import BODIES

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(300)]

_ENVIRONMENT = {
    "TANDEM_VERIFY_CONTROLLER": "fixed",
    "TANDEM_VERIFY_BLOCK_SIZE": "4",
    "TANDEM_VERIFY_MIN_CONFIDENCE": "0",
    "TANDEM_VERIFY_DRAFT_WAIT_MS": "5000",
    "TANDEM_VERIFY_FEEDBACK_SAMPLED": "0.5",
    "TANDEM_ROUTER_PLAIN_SHARE": "0",
}
_BODY = {**BODIES[12], "max_tokens": 24, "temperature": 0}
_WITHIN = 20.0


@pytest.fixture(scope="module", params=["ngram", "garbage"])
def learning(request: pytest.FixtureRequest) -> Iterator[LocalStack]:
    with LocalStack({request.param: DRAFTS[request.param]}, _ENVIRONMENT, learning=True) as running:
        yield running


@pytest.fixture
async def asking(learning: LocalStack) -> AsyncIterator[Client]:
    client = Client(learning.url)
    yield client
    await client.close()


@pytest.fixture
async def admin(learning: LocalStack) -> AsyncIterator[httpx.AsyncClient]:
    address = f"http://{HOST}:{learning.stack.ports.router_admin}"
    async with httpx.AsyncClient(base_url=address, timeout=30) as client:
        yield client


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(_WITHIN):
        while not await check():
            await asyncio.sleep(0.05)


async def pairs(admin: httpx.AsyncClient) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = (await admin.get("/autopilot")).json()["pairs"]
    return shown


@pytest.mark.parametrize("learning", ["ngram"], indirect=True)
async def test_what_answers_cost_is_learned(asking: Client, admin: httpx.AsyncClient) -> None:
    reply = await asking.ask(_BODY)

    async def learned() -> bool:
        values = (await admin.get("/learned")).json()["tokens_per_second"]
        return any(
            each["prompt_class"] == reply.tandem["prompt_class"]
            and each["pool"] == "ngram"
            and each["value"] > 1
            for each in values
        )

    await eventually(learned)


@pytest.mark.parametrize("learning", ["ngram"], indirect=True)
async def test_a_switch_turns_drafts_off_to_shadow_and_on_again(
    asking: Client, admin: httpx.AsyncClient
) -> None:
    drafted = await asking.ask(_BODY)
    assert drafted.speculation["drafts"] > 0
    replies: dict[str, Reply] = {}
    for state in ("off", "shadow", "on"):
        await admin.put("/switches/all", json={"state": state})
        await asyncio.sleep(1.0)  # by then it holds everywhere
        replies[state] = await asking.ask(_BODY)
    assert replies["off"].tandem["drafts"] == []
    assert replies["off"].speculation["drafts"] == replies["shadow"].speculation["drafts"] == 0
    assert replies["shadow"].tandem["drafts"] == ["ngram"]
    assert replies["on"].speculation["drafts"] > 0
    assert {reply.text for reply in replies.values()} == {drafted.text}


@pytest.mark.parametrize("learning", ["ngram"], indirect=True)
async def test_a_switch_holds_for_an_answer_under_way(asking: Client, admin: httpx.AsyncClient) -> None:
    turning: list[asyncio.Task[object]] = []

    def on_chunk(count: int) -> None:
        if count == 3:
            turning.append(asyncio.create_task(admin.put("/switches/all", json={"state": "off"})))

    body = {**_BODY, "max_tokens": 700, "ignore_eos": True}
    reply = await asking.stream(body, on_chunk)
    await turning[0]
    await admin.put("/switches/all", json={"state": "on"})
    steps, drafts = reply.speculation["steps"], reply.speculation["drafts"]
    assert 0 < drafts < steps / 2


@pytest.mark.parametrize("learning", ["ngram"], indirect=True)
async def test_a_router_killed_in_mid_stream_loses_nothing_and_forgets_nothing(
    learning: LocalStack, asking: Client, admin: httpx.AsyncClient
) -> None:
    expected = await asking.ask({**_BODY, "max_tokens": 64})
    await admin.put("/switches/translation", json={"state": "off"})
    before = (await admin.get("/learned")).json()
    kills: list[asyncio.Task[None]] = []

    def on_chunk(count: int) -> None:
        if count == 3:
            kills.append(asyncio.create_task(asyncio.to_thread(learning.kill, "router")))

    streamed = await asking.stream({**_BODY, "max_tokens": 64}, on_chunk)
    await kills[0]
    assert streamed.text == expected.text
    assert (await asking.ask(_BODY)).text  # with the last plan, or a new one
    await wait_ready(learning.stack, 60)
    assert (await admin.get("/switches")).json()["translation"] == "off"
    after = (await admin.get("/learned")).json()
    assert {each["pool"] for each in before["tokens_per_second"]} <= {
        each["pool"] for each in after["tokens_per_second"]
    }
    await admin.put("/switches/translation", json={"state": "on"})


@pytest.mark.parametrize("learning", ["ngram"], indirect=True)
async def test_the_decision_is_explained(learning: LocalStack) -> None:
    async with httpx.AsyncClient(base_url=learning.url, timeout=60) as client:
        body = {"model": "smollm2-135m-instruct", **_BODY}
        answer = await client.post("/v1/chat/completions", json=body, headers={"x-tandem-route": "explain"})
    assert answer.headers["x-tandem-route"].startswith("class ")
    assert "verify 127.0.0.1" in answer.headers["x-tandem-route"]


@pytest.mark.parametrize("learning", ["garbage"], indirect=True)
async def test_a_useless_draft_is_set_to_rest_within_50_requests_and_watched_in_shadow(
    asking: Client, admin: httpx.AsyncClient
) -> None:
    asked = 0
    while not any(pair["resting"] for pair in await pairs(admin)):
        assert asked < 50
        await asking.ask(_BODY)
        asked += 1
        await asyncio.sleep(0.05)
    (resting,) = [pair for pair in await pairs(admin) if pair["resting"]]
    assert "useless" in resting["resting"]
    started, watched = time.monotonic(), False
    while not watched:
        assert time.monotonic() - started < 120
        reply = await asking.ask(_BODY)
        assert reply.speculation["drafts"] == 0
        watched = reply.tandem["drafts"] == ["garbage"]
