"""Answers that come as server-sent events."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from common.errors import Internal, TandemError, Unavailable
from tests.unit.gateway.fakes import FINISHED, FLAG, MODEL, STARTED, Backend, delta, script
from tests.unit.gateway.requests import CHAT, COMPLETIONS, chat_body, completion_body, sse_objects
from tests.unit.gateway.test_answers import TANDEM, USAGE


async def test_a_chat_stream_has_the_form_of_openai(live: httpx.AsyncClient) -> None:
    response = await live.post(CHAT, json=chat_body(stream=True), headers={"X-Request-Id": "r1"})
    chunks = sse_objects(response.text)
    assert chunks.pop() == "[DONE]"
    created = chunks[0]["created"]
    envelope = {
        "id": "chatcmpl-r1",
        "object": "chat.completion.chunk",
        "created": created,
        "model": MODEL,
        "system_fingerprint": "fp-1",
    }
    deltas = [{"role": "assistant", "content": ""}, {"content": "Hel"}, {"content": "lo"}]
    choices = [{"index": 0, "delta": d, "logprobs": None, "finish_reason": None} for d in deltas]
    last = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}
    assert chunks == [
        *({**envelope, "choices": [choice]} for choice in choices),
        {**envelope, "choices": [last], "tandem": TANDEM},
    ]


async def test_a_completion_stream_has_the_form_of_openai(live: httpx.AsyncClient) -> None:
    response = await live.post(COMPLETIONS, json=completion_body(stream=True))
    chunks = sse_objects(response.text)
    assert chunks.pop() == "[DONE]"
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["Hel", "lo", ""]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "stop"]
    assert chunks[-1]["tandem"] == TANDEM


async def test_each_event_is_one_data_line_in_utf8(live: httpx.AsyncClient, backend: Backend) -> None:
    backend.verify.script = script(STARTED, delta("é\n\n世"), FINISHED)
    response = await live.post(COMPLETIONS, json=completion_body(stream=True))
    events = response.content.split(b"\n\n")
    assert events[-2:] == [b"data: [DONE]", b""]
    for event in events[:-2]:
        assert event.startswith(b"data: {")
        assert b"\n" not in event
    assert "é\\n\\n世".encode() in events[0]


async def test_a_stream_is_not_to_be_buffered(live: httpx.AsyncClient) -> None:
    response = await live.post(CHAT, json=chat_body(stream=True))
    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert response.headers["Cache-Control"] == "no-cache"
    assert response.headers["X-Accel-Buffering"] == "no"
    assert response.headers["X-Request-Id"]


async def test_usage_comes_in_a_chunk_of_its_own_when_asked_for(live: httpx.AsyncClient) -> None:
    body = chat_body(stream=True, stream_options={"include_usage": True})
    *chunks, usage, done = sse_objects((await live.post(CHAT, json=body)).text)
    assert done == "[DONE]"
    assert (usage["choices"], usage["usage"]) == ([], USAGE)
    assert [chunk["usage"] for chunk in chunks] == [None] * 4


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"include_usage": None}])
async def test_usage_does_not_come_unasked(live: httpx.AsyncClient, options: dict[str, bool] | None) -> None:
    response = await live.post(CHAT, json=chat_body(stream=True, stream_options=options))
    assert "usage" not in response.text


async def test_tokens_without_text_make_no_chunk_and_flags_do(
    live: httpx.AsyncClient, backend: Backend
) -> None:
    backend.verify.script = script(
        STARTED, delta(""), delta("", FLAG), delta("a"), delta("b", FLAG), FINISHED
    )
    response = await live.post(CHAT, json=chat_body(stream=True))
    _, flag, a, b, last, _ = sse_objects(response.text)
    assert [chunk["choices"][0]["delta"] for chunk in (flag, a, b)] == [
        {"content": ""},
        {"content": "a"},
        {"content": "b"},
    ]
    assert len(flag["tandem"]["annotations"]) == len(b["tandem"]["annotations"]) == 1
    assert "tandem" not in a
    assert len(last["tandem"]["annotations"]) == 2


async def test_each_piece_of_text_is_sent_as_soon_as_it_is_there(
    live: httpx.AsyncClient, backend: Backend
) -> None:
    more = asyncio.Event()
    backend.verify.script = script(STARTED, delta("first"), more, delta("second"), FINISHED)
    async with live.stream("POST", CHAT, json=chat_body(stream=True)) as response:
        lines = response.aiter_lines()
        seen = ""
        async with asyncio.timeout(5):
            while "first" not in seen:
                seen = await anext(lines)
        more.set()
        rest = [line async for line in lines]
    assert rest[-2:] == ["data: [DONE]", ""]


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (Internal("it broke"), "server_error", "internal_error"),
        (Unavailable("draining"), "server_error", "unavailable"),
    ],
)
async def test_an_answer_that_breaks_ends_with_one_error_and_no_done(
    live: httpx.AsyncClient, backend: Backend, error: TandemError, kind: str, code: str
) -> None:
    backend.verify.script = script(STARTED, delta("a"), error)
    response = await live.post(CHAT, json=chat_body(stream=True))
    assert response.status_code == 200
    *_, text, last = sse_objects(response.text)
    assert text["choices"][0]["delta"] == {"content": "a"}
    assert (last["error"]["type"], last["error"]["code"]) == (kind, code)
    assert "[DONE]" not in response.text


async def test_an_answer_that_stops_unfinished_ends_with_an_error(
    live: httpx.AsyncClient, backend: Backend
) -> None:
    backend.verify.script = script(STARTED, delta("a"))
    response = await live.post(CHAT, json=chat_body(stream=True))
    assert sse_objects(response.text)[-1]["error"]["code"] == "internal_error"
    assert "[DONE]" not in response.text


async def test_a_failure_after_the_finish_is_not_passed_off_as_done(
    live: httpx.AsyncClient, backend: Backend
) -> None:
    backend.verify.script = script(STARTED, delta("a"), FINISHED, Internal("late"))
    response = await live.post(CHAT, json=chat_body(stream=True))
    assert sse_objects(response.text)[-1]["error"]["message"] == "late"


@pytest.mark.parametrize("stray", [STARTED, delta("more"), FINISHED])
async def test_events_out_of_order_end_with_an_error(
    live: httpx.AsyncClient, backend: Backend, stray: object
) -> None:
    backend.verify.script = script(STARTED, FINISHED, stray)  # type: ignore[arg-type]
    response = await live.post(CHAT, json=chat_body(stream=True))
    assert sse_objects(response.text)[-1]["error"]["code"] == "internal_error"


async def test_a_client_that_does_not_read_holds_the_verify_service_back(
    live: httpx.AsyncClient, backend: Backend
) -> None:
    piece, pieces = "x" * 10_000, 5_000
    backend.verify.script = script(STARTED, *[delta(piece)] * pieces, FINISHED)
    async with live.stream("POST", CHAT, json=chat_body(stream=True)):
        previous = -1
        while backend.verify.sent != previous:
            previous = backend.verify.sent
            await asyncio.sleep(0.3)
        assert 0 < backend.verify.sent < pieces / 2
