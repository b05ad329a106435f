"""Whatever drafts, and whoever shares the batch, the answer is the target's own."""

from __future__ import annotations

from typing import Any

import pytest

from common.types import SamplingParams
from tests.e2e.client import Client, Reply
from tests.e2e.prompts import BODIES
from tests.e2e.reference import Answer, TargetAlone

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(600)]

MAX_TOKENS = 16
EXCUSED_AT_MOST = 2
SEEDED: dict[str, Any] = {"temperature": 0.8, "top_p": 0.95, "seed": -1234, "max_tokens": 40}


@pytest.fixture(scope="session")
def expected(target: TargetAlone) -> list[Answer]:
    answers = [target.greedy(body, MAX_TOKENS) for body in BODIES]
    lengths = [len(answer.prompt) for answer in answers]
    assert min(lengths) <= 5
    assert max(lengths) >= 1400
    return answers


def check(target: TargetAlone, expected: list[Answer], replies: list[Reply]) -> None:
    """Every reply equals its reference; a near-tie in float32 is printed and excused, few times only."""
    excused = 0
    for index, (answer, reply) in enumerate(zip(expected, replies, strict=True)):
        if reply.text == answer.text:
            assert reply.completion_tokens == len(answer.token_ids)
            continue
        excuse = target.excuse(answer, reply.text)
        assert excuse, f"prompt {index}: expected {answer.text!r}, got {reply.text!r}"
        print(f"prompt {index} differs, excused: {excuse}")
        excused += 1
    assert excused <= EXCUSED_AT_MOST


def greedy(block_size: int | None) -> list[dict[str, Any]]:
    speculation = {"block_size": block_size} if block_size else {"enabled": False}
    return [
        {**body, "temperature": 0, "max_tokens": MAX_TOKENS, "speculation": speculation} for body in BODIES
    ]


@pytest.mark.parametrize("block_size", [1, 2, 4, 8])
async def test_eight_greedy_answers_at_once_equal_transformers_generate(
    client: Client, target: TargetAlone, expected: list[Answer], block_size: int
) -> None:
    replies = await client.ask_all(greedy(block_size), at_once=8)
    check(target, expected, replies)
    assert sum(reply.speculation["draft_tokens"] for reply in replies) > len(BODIES), (
        "hardly anything drafted"
    )


async def test_greedy_answers_one_by_one_equal_transformers_generate(
    client: Client, target: TargetAlone, expected: list[Answer], kind: str
) -> None:
    replies = await client.ask_all(greedy(4), at_once=1)
    check(target, expected, replies)
    accepted = sum(reply.speculation["accepted_tokens"] for reply in replies)
    assert accepted == 0 if kind == "garbage" else accepted > 0


@pytest.mark.parametrize("stack", ["ngram"], indirect=True)
async def test_answers_without_drafts_equal_transformers_generate(
    client: Client, target: TargetAlone, expected: list[Answer]
) -> None:
    replies = await client.ask_all(greedy(None), at_once=8)
    check(target, expected, replies)
    assert all(reply.speculation["drafts"] == 0 for reply in replies)


async def test_a_seeded_answer_is_the_targets_own_in_any_company(client: Client, target: TargetAlone) -> None:
    body = {**BODIES[12], **SEEDED}
    answer = target.keyed(BODIES[12], SamplingParams(temperature=0.8, top_p=0.95, seed=-1234), 40)
    alone = await client.stream(body)
    without = await client.ask({**body, "speculation": {"enabled": False}})
    company: list[dict[str, Any]] = [
        {**other, "max_tokens": 30, "temperature": 1.5} for other in BODIES[13:20]
    ]
    first, *_ = await client.ask_all([body, *company], at_once=8)
    assert alone.text == without.text == first.text == answer.text
    assert alone.tandem["mode"] == "keyed"


async def test_eight_unseeded_answers_differ(client: Client) -> None:
    body = {**BODIES[13], "temperature": 1.0, "max_tokens": 24}
    replies = await client.ask_all([body] * 8, at_once=8)
    assert len({reply.text for reply in replies}) == 8
    assert {reply.tandem["mode"] for reply in replies} == {"rejection"}
