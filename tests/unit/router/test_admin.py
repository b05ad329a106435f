"""The admin API, over a real Valkey."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx
import pytest

from common.switches import State
from router.admin import create_app
from router.autopilot.autopilot import Autopilot
from router.classifier import PROMPT_CLASSES
from router.learning.bandit import Bandit
from router.pilot import Pilot
from router.store import Store, connect
from tests.support.valkey import Valkey, require_valkey
from tests.unit.router.autopilot.samples import record


@pytest.fixture
async def valkey() -> AsyncGenerator[Valkey, None]:
    require_valkey()
    async with Valkey() as server:
        yield server


@pytest.fixture
async def pilot(valkey: Valkey) -> AsyncGenerator[Pilot, None]:
    store = Store(connect(valkey.url))
    yield Pilot(store, Autopilot(lambda _: ("ngram",)))
    await store.close()


@pytest.fixture
async def client(pilot: Pilot) -> AsyncGenerator[httpx.AsyncClient, None]:
    bandit = Bandit()
    bandit.learn("chat", "ngram", 0.0)
    transport = httpx.ASGITransport(create_app(pilot, bandit))
    async with httpx.AsyncClient(transport=transport, base_url="http://router") as connected:
        yield connected


async def test_switches_are_on_until_they_are_set(client: httpx.AsyncClient, pilot: Pilot) -> None:
    assert set((await client.get("/switches")).json()) == {"all", *PROMPT_CLASSES}
    answer = await client.put("/switches/code", json={"state": "shadow"})
    assert answer.status_code == 200
    assert answer.json()["code"] == "shadow" and answer.json()["all"] == "on"
    assert pilot.steering.state("code") is State.SHADOW
    await client.put("/switches/all", json={"state": "off"})
    assert pilot.steering.state("chat") is State.OFF


@pytest.mark.parametrize(
    ("path", "body", "status", "named"),
    [
        ("/switches/poetry", {"state": "off"}, 400, "poetry"),
        ("/switches/chat", {"state": "maybe"}, 422, "state"),
        ("/switches/chat", {"state": "off", "why": "x"}, 422, "why"),
        ("/switches/chat", {}, 422, "state"),
    ],
)
async def test_what_is_no_switch_is_refused_by_name(
    client: httpx.AsyncClient, path: str, body: dict[str, str], status: int, named: str
) -> None:
    answer = await client.put(path, json=body)
    assert answer.status_code == status
    assert named in answer.text


async def test_a_switch_that_cannot_be_kept_is_not_set(
    client: httpx.AsyncClient, pilot: Pilot, valkey: Valkey
) -> None:
    await valkey.kill()
    answer = await client.put("/switches/chat", json={"state": "off"})
    assert answer.status_code == 503
    assert pilot.steering.state("chat") is State.ON


async def test_the_autopilot_shows_what_it_sees_and_did_and_can_be_undone(
    client: httpx.AsyncClient, pilot: Pilot
) -> None:
    for _ in range(30):
        pilot.autopilot.learn(record(acceptance=0.0))
    await pilot.tick()
    shown = (await client.get("/autopilot")).json()
    assert shown["leads"]
    (pair,) = shown["pairs"]
    assert (pair["prompt_class"], pair["pool"]) == ("chat", "ngram")
    assert "useless" in pair["resting"]
    assert [action["kind"] for action in shown["actions"]] == ["plain", "retrain"]
    asked = {"prompt_class": "chat", "pool": "ngram"}
    assert (await client.post("/autopilot/release", json=asked)).json() == {"released": True}
    assert pilot.steering.resting == {}
    assert (await client.post("/autopilot/release", json=asked)).json() == {"released": False}


async def test_what_was_learned_is_shown(client: httpx.AsyncClient) -> None:
    learned = (await client.get("/learned")).json()["tokens_per_second"]
    assert learned == [{"prompt_class": "chat", "pool": "ngram", "value": 1.0}]
