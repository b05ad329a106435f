"""Lossy policies over HTTP: what they change is told, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

from bench.measure import scrape
from tandem.local import LocalStack
from tests.e2e.client import Client

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.timeout(300),
    pytest.mark.parametrize("stack", ["ngram"], indirect=True),
]

QUESTION: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Say this three times: the cat sat on the mat."}],
    "max_tokens": 48,
    "temperature": 0,
}

RAMBLING: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "Tell a story of the sea, the ship and the sailors in the storm."}
    ],
    "max_tokens": 160,
}


def under(policy: Any, **fields: Any) -> dict[str, Any]:
    return {**QUESTION, **fields, "speculation": {"policy": policy, "block_size": 8}}


async def test_lossless_answers_say_so_and_have_no_deviation(client: Client) -> None:
    reply = await client.ask(under("lossless"))
    assert (reply.tandem["policy"], reply.tandem["deviation"]) == ("lossless", None)
    assert reply.text == (await client.ask({**QUESTION, "speculation": {"enabled": False}})).text


@pytest.mark.parametrize("policy", ["strict", {"name": "block", "least": 2}])
async def test_greedily_the_targets_likeliest_tokens_are_its_answer(client: Client, policy: Any) -> None:
    reply = await client.ask(under(policy))
    assert reply.text == (await client.ask(under("lossless"))).text
    assert reply.speculation["accepted_tokens"] > 0
    assert reply.tandem["deviation"]["strayed_tokens"] == 0


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_strays_is_counted_in_the_answer_and_in_the_metrics(
    client: Client, stack: LocalStack, streamed: bool
) -> None:
    before = await scrape(stack)
    body = {**under({"name": "typical", "epsilon": 1e-4}), **RAMBLING}
    reply = await (
        client.stream({**body, "stream_options": {"include_usage": True}}) if streamed else client.ask(body)
    )
    after = await scrape(stack)
    deviation = reply.tandem["deviation"]
    assert reply.tandem["policy"] == "typical"
    assert deviation["strayed_tokens"] > 0
    assert deviation["strayed_share"] == deviation["strayed_tokens"] / reply.completion_tokens
    assert 0 < deviation["mean_nkl"] < 1
    tokens = after["tandem_policy_tokens_total"] - before["tandem_policy_tokens_total"]
    assert tokens == reply.completion_tokens


async def test_the_semantic_policy_has_its_model(client: Client) -> None:
    reply = await client.ask(under("semantic", temperature=0.8, seed=5))
    again = await client.ask(under("semantic", temperature=0.8, seed=5))
    assert reply.tandem["policy"] == "semantic"
    assert reply.text == again.text
