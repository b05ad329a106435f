"""A drafted claim that the rules contradict is flagged, or vetoed, and the answer stays the target's own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.client import Client

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.timeout(300),
    pytest.mark.parametrize("stack", ["ngram"], indirect=True),
]

CLAIM = "At sea level, water boils at 50 degrees Celsius."
# The target goes on repeating, so prompt lookup drafts the claim and the target agrees with it.
REPEATED: dict[str, Any] = {"prompt": f"{CLAIM}\n" * 4, "max_tokens": 40, "temperature": 0}


def checked(mode: str) -> dict[str, Any]:
    return {**REPEATED, "speculation": {"fact_check": mode, "block_size": 8}}


async def test_a_contradicted_claim_is_annotated_with_its_evidence(client: Client) -> None:
    plain = await client.ask({**REPEATED, "speculation": {"enabled": False}})
    reply = await client.ask(checked("annotate"))
    assert reply.text == plain.text
    assert CLAIM in reply.text
    assert reply.annotations, "the claim was delivered and not flagged"
    note = reply.annotations[0]
    assert note["verdict"] == "contradicted"
    assert "50 degrees Celsius" in note["text"]
    assert note["evidence"]
    assert 0 <= note["first_token"] < note["first_token"] + note["token_count"] <= reply.completion_tokens


async def test_annotations_arrive_in_the_stream(client: Client) -> None:
    reply = await client.stream(checked("annotate"))
    assert any("50 degrees Celsius" in note["text"] for note in reply.annotations)


async def test_a_vetoed_claim_is_not_accepted_as_drafted(client: Client) -> None:
    plain = await client.ask({**REPEATED, "speculation": {"enabled": False}})
    reply = await client.ask(checked("veto"))
    assert reply.text == plain.text
    assert reply.speculation["vetoed_tokens"] > 0
    assert reply.tandem["mode"] == "keyed"


async def test_without_a_fact_check_nothing_is_flagged(client: Client) -> None:
    reply = await client.ask(checked("off"))
    assert reply.annotations == []
    assert reply.speculation["vetoed_tokens"] == 0
