"""kill -9 in mid-stream: the client sees the undisturbed text."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tandem.local import LocalStack
from tandem.ready import wait_ready
from tests.e2e.client import Client
from tests.e2e.prompts import BODIES

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(300)]

_QUESTION = BODIES[12]
SAMPLING: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "seeded": {"temperature": 0.9, "seed": 77},
}


async def disturbed(stack: LocalStack, client: Client, victim: str, body: dict[str, Any]) -> str:
    """The streamed text, with ``victim`` killed once ten chunks have come."""
    kills: list[asyncio.Task[None]] = []

    def on_chunk(count: int) -> None:
        if count == 10:
            kills.append(asyncio.create_task(asyncio.to_thread(stack.kill, victim)))

    reply = await client.stream(body, on_chunk)
    assert kills, "the answer was too short to be disturbed"
    await kills[0]
    assert reply.finish_reason == "length"
    return reply.text


@pytest.mark.parametrize("sampling", SAMPLING)
async def test_a_draft_killed_in_mid_stream_changes_nothing(
    stack: LocalStack, client: Client, kind: str, sampling: str
) -> None:
    body = {**_QUESTION, "max_tokens": 48, **SAMPLING[sampling]}
    expected = await client.ask({**body, "speculation": {"enabled": False}})
    assert await disturbed(stack, client, f"draft-{kind}", body) == expected.text
    await wait_ready(stack.stack, 120)


@pytest.mark.parametrize("stack", ["ngram"], indirect=True)
@pytest.mark.parametrize("mode", ["annotate", "veto"])
@pytest.mark.parametrize("victim", ["fact-check", "valkey"])
async def test_a_fact_check_killed_in_mid_stream_changes_nothing(
    stack: LocalStack, client: Client, victim: str, mode: str
) -> None:
    body = {**_QUESTION, "max_tokens": 48, "temperature": 0, "speculation": {"fact_check": mode}}
    expected = await client.ask({**body, "speculation": {"enabled": False}})
    assert await disturbed(stack, client, victim, body) == expected.text
    await wait_ready(stack.stack, 120)


async def test_drafting_resumes_after_the_draft_is_back(stack: LocalStack, client: Client, kind: str) -> None:
    stack.kill(f"draft-{kind}")
    await wait_ready(stack.stack, 120)
    body = {**BODIES[7], "max_tokens": 48, "temperature": 0}
    async with asyncio.timeout(60):
        while True:
            reply = await client.ask(body)
            if reply.speculation["drafts"] > 0:
                return
