"""Several choices of one request: each a call of its own, together one answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from common.errors import Internal, InvalidRequest
from common.types import GenerateEvent, GenerateRequest
from tests.unit.gateway.fakes import (
    FINISHED,
    FLAG,
    STARTED,
    Backend,
    Script,
    delta,
    direct_client,
    script,
    until,
)
from tests.unit.gateway.requests import CHAT, COMPLETIONS, chat_body, completion_body, sse_objects
from tests.unit.gateway.test_answers import TANDEM


def by_choice(*scripts: Script) -> Script:
    """One script after the other for the calls as they come."""
    left = iter(scripts)

    def play() -> AsyncIterator[GenerateEvent]:
        return next(left)()

    return play


async def requests_of(client: httpx.AsyncClient, backend: Backend, **fields: object) -> list[GenerateRequest]:
    backend.verify.requests.clear()
    response = await client.post(CHAT, json=chat_body(**fields))
    assert response.status_code == 200, response.text
    return sorted(backend.verify.requests, key=lambda request: request.request_id)


async def test_the_first_choice_has_the_seed_and_every_other_one_of_its_own(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    [alone] = await requests_of(client, backend, seed=4)
    requests = await requests_of(client, backend, seed=4, n=5)
    again = await requests_of(client, backend, seed=4, n=3)
    other = await requests_of(client, backend, seed=5, n=5)
    seeds = [request.sampling.seed for request in requests]
    assert seeds[0] == alone.sampling.seed == 4
    assert [request.sampling.seed for request in again] == seeds[:3]
    assert len({*seeds, *(request.sampling.seed for request in other)}) == 10
    assert len({request.request_id for request in requests}) == 5


async def test_without_a_seed_no_choice_has_one(client: httpx.AsyncClient, backend: Backend) -> None:
    assert [request.sampling.seed for request in await requests_of(client, backend, n=3)] == [None] * 3


async def test_the_router_is_asked_once(client: httpx.AsyncClient, backend: Backend) -> None:
    await requests_of(client, backend, n=4)
    assert len(backend.router.requests) == 1


async def test_counters_and_completion_tokens_are_summed_and_the_prompt_is_counted_once(
    client: httpx.AsyncClient, backend: Backend
) -> None:
    backend.verify.script = script(STARTED, delta("a", FLAG), FINISHED)
    answer = (await client.post(CHAT, json=chat_body(n=2))).json()
    assert answer["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 4,
        "total_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 3},
    }
    speculation = answer["tandem"]["speculation"]
    assert speculation["draft_tokens"] == 16
    assert speculation["accepted_per_position"] == [4, 2, 0, 0]
    assert speculation["mean_acceptance_length"] == 2.5
    assert [flag["choice"] for flag in answer["tandem"]["annotations"]] == [0, 1]


async def test_streamed_choices_come_side_by_side_as_their_texts_do(
    live: httpx.AsyncClient, backend: Backend
) -> None:
    second_is_done = asyncio.Event()
    backend.verify.script = by_choice(
        script(STARTED, delta("a"), second_is_done, delta("b"), FINISHED),
        script(STARTED, delta("c"), delta("d"), FINISHED),
    )
    body = completion_body(stream=True, n=2, stream_options={"include_usage": True})
    texts: dict[int, str] = {0: "", 1: ""}
    lines = []
    async with live.stream("POST", COMPLETIONS, json=body) as response, asyncio.timeout(10):
        async for line in response.aiter_lines():
            lines.append(line)
            if '"finish_reason":"stop"' in line:
                second_is_done.set()
    *chunks, usage, done = sse_objects("\n".join(lines) + "\n")
    for chunk in chunks:
        [choice] = chunk["choices"]
        texts[choice["index"]] += choice["text"]
    assert sorted(texts.values()) == ["ab", "cd"]
    assert [chunk["tandem"] for chunk in chunks if "tandem" in chunk] == [TANDEM] * 2
    assert usage["usage"]["completion_tokens"] == 4
    assert done == "[DONE]"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_choice_that_is_refused_refuses_the_request_and_cancels_the_others(
    live: httpx.AsyncClient, backend: Backend, stream: bool
) -> None:
    backend.verify.script = by_choice(
        script(STARTED, delta("a"), asyncio.Event()), script(InvalidRequest("no", field="top_k"))
    )
    async with asyncio.timeout(10):
        response = await live.post(CHAT, json=chat_body(n=2, stream=stream))
        assert response.status_code == 400
        assert response.json()["error"]["param"] == "top_k"
        await backend.verify.cancelled.wait()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_choice_that_breaks_ends_the_answer_and_cancels_the_others(
    live: httpx.AsyncClient, backend: Backend, stream: bool
) -> None:
    backend.verify.script = by_choice(
        script(STARTED, delta("a"), asyncio.Event()), script(STARTED, delta("b"), Internal("it broke"))
    )
    async with asyncio.timeout(10):
        response = await live.post(CHAT, json=chat_body(n=2, stream=stream))
        last = sse_objects(response.text)[-1] if stream else response.json()
        assert last["error"]["message"] == "it broke"
        await backend.verify.cancelled.wait()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_cancels_every_choice(
    live: httpx.AsyncClient, backend: Backend, stream: bool
) -> None:
    cancelled = 0

    async def play() -> AsyncIterator[GenerateEvent]:
        nonlocal cancelled
        try:
            yield STARTED
            yield delta("a")
            await asyncio.Event().wait()
        finally:
            cancelled += 1

    backend.verify.script = play
    asking = asyncio.create_task(live.post(CHAT, json=chat_body(n=3, stream=stream)))
    await until(lambda: backend.verify.sent >= 6)
    asking.cancel()
    await until(lambda: cancelled == 3)


async def test_each_choice_takes_one_of_the_gateways_places(backend: Backend) -> None:
    async with direct_client(backend, max_concurrent=3) as client:
        assert (await client.post(CHAT, json=chat_body(n=4))).status_code == 429
        assert not backend.router.requests
        for _ in range(3):  # and gives it back
            assert (await client.post(CHAT, json=chat_body(n=3))).status_code == 200


async def test_the_most_choices_are_configured(backend: Backend) -> None:
    async with direct_client(backend, max_choices=2) as client:
        refused = await client.post(CHAT, json=chat_body(n=3))
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "n")
        assert (await client.post(CHAT, json=chat_body(n=2))).status_code == 200
