from __future__ import annotations

import asyncio
import json
import re

import httpx

from tests.unit.gateway.fakes import STARTED, Backend, delta, live_gateway, script
from tests.unit.gateway.requests import CHAT, chat_body


async def value(client: httpx.AsyncClient, sample: str) -> float:
    text = (await client.get("/metrics")).text
    match = re.search(rf"^{re.escape(sample)} (\S+)$", text, re.MULTILINE)
    return float(match[1]) if match else 0.0


async def test_requests_are_counted_by_route_and_status(client: httpx.AsyncClient) -> None:
    ok = 'tandem_gateway_requests_total{route="/v1/chat/completions",status="200"}'
    bad = 'tandem_gateway_requests_total{route="/v1/chat/completions",status="400"}'
    before = await value(client, ok), await value(client, bad)
    await client.post(CHAT, json=chat_body())
    await client.post(CHAT, json={})
    assert (await value(client, ok), await value(client, bad)) == (before[0] + 1, before[1] + 1)


async def test_paths_that_clients_make_up_share_one_label(client: httpx.AsyncClient) -> None:
    await client.get("/made/up")
    await client.get("/v1/models/made-up")
    await client.put("/livez")
    text = (await client.get("/metrics")).text
    assert "made" not in text
    assert 'tandem_gateway_requests_total{route="other",status="404"}' in text
    assert 'tandem_gateway_requests_total{route="/v1/models/{model:path}",status="404"}' in text
    assert 'tandem_gateway_requests_total{route="/livez",status="405"}' in text


async def test_deliveries_of_tokens_are_timed(client: httpx.AsyncClient) -> None:
    first, later = "tandem_time_to_first_token_seconds_count", "tandem_inter_token_latency_seconds_count"
    before = await value(client, first), await value(client, later)
    await client.post(CHAT, json=chat_body())
    assert (await value(client, first), await value(client, later)) == (before[0] + 1, before[1] + 1)


async def test_answers_in_flight_are_counted_until_the_client_leaves(backend: Backend) -> None:
    backend.verify.script = script(STARTED, delta("a"), asyncio.Event())
    async with live_gateway(backend) as url, httpx.AsyncClient(base_url=url) as client:
        assert await value(client, "tandem_gateway_inflight") == 0
        async with client.stream("POST", CHAT, content=json.dumps(chat_body(stream=True))):
            assert await value(client, "tandem_gateway_inflight") == 1
        async with asyncio.timeout(5):
            while True:
                if await value(client, "tandem_gateway_inflight") == 0:
                    return
                await asyncio.sleep(0.01)
