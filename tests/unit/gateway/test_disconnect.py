"""A client that leaves frees the slot it held, all the way down, within 200 ms."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from tests.unit.gateway.fakes import STARTED, Backend, Step, delta, live_gateway, script, until
from tests.unit.gateway.requests import CHAT, chat_body

PROMPTLY = 0.2


async def send(url: str, body: dict[str, Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
    content = json.dumps(body).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: gateway\r\nContent-Length: {len(content)}\r\n\r\n"
    writer.write(head.encode() + content)
    await writer.drain()
    return reader, writer


async def until_generating(backend: Backend) -> None:
    await until(lambda: bool(backend.verify.requests))


async def assert_cancelled_promptly(backend: Backend, writer: asyncio.StreamWriter) -> None:
    left = time.monotonic()
    writer.close()
    await writer.wait_closed()
    async with asyncio.timeout(5):
        await backend.verify.cancelled.wait()
    assert time.monotonic() - left < PROMPTLY


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "steps", [[], [STARTED], [STARTED, delta("a")]], ids=["queued", "started", "answering"]
)
async def test_a_client_that_leaves_cancels_the_call(
    backend: Backend, steps: list[Step], stream: bool
) -> None:
    backend.verify.script = script(*steps, asyncio.Event())
    async with live_gateway(backend, max_concurrent=1) as url:
        _, writer = await send(url, chat_body(stream=stream))
        await until_generating(backend)
        await assert_cancelled_promptly(backend, writer)


async def test_a_client_that_leaves_while_it_reads_cancels_the_call(backend: Backend) -> None:
    backend.verify.script = script(STARTED, delta("a"), asyncio.Event())
    async with live_gateway(backend) as url:
        reader, writer = await send(url, chat_body(stream=True))
        await reader.readuntil(b'"content":"a"')
        await assert_cancelled_promptly(backend, writer)


async def test_a_client_that_leaves_without_reading_a_full_stream_cancels_the_call(backend: Backend) -> None:
    backend.verify.script = script(STARTED, *[delta("x" * 10_000)] * 5_000)
    async with live_gateway(backend) as url:
        _, writer = await send(url, chat_body(stream=True))
        previous = -1
        while backend.verify.sent != previous:
            previous = backend.verify.sent
            await asyncio.sleep(0.2)
        await assert_cancelled_promptly(backend, writer)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_slot_of_a_client_that_left_is_free_again(backend: Backend, stream: bool) -> None:
    served = backend.verify.script
    backend.verify.script = script(STARTED, delta("a"), asyncio.Event())
    async with live_gateway(backend, max_concurrent=1) as url:
        _, writer = await send(url, chat_body(stream=stream))
        await until_generating(backend)
        await assert_cancelled_promptly(backend, writer)
        backend.verify.script = served
        reader, writer = await send(url, chat_body())
        assert b" 200 " in await reader.readline()
        writer.close()
        await writer.wait_closed()


async def test_a_call_that_ran_to_its_end_is_not_cancelled(backend: Backend) -> None:
    async with live_gateway(backend) as url:
        for stream in (False, True):
            reader, writer = await send(url, chat_body(stream=stream))
            await reader.readuntil(b"tags_missing")
            await asyncio.sleep(0.05)
            writer.close()
            await writer.wait_closed()
    assert not backend.verify.cancelled.is_set()


async def test_a_client_that_leaves_within_its_body_is_no_fault(backend: Backend) -> None:
    async with live_gateway(backend, max_concurrent=1) as url:
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
        writer.write(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{{".encode())
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.close()
        await writer.wait_closed()
        await asyncio.sleep(0.05)
        reader, writer = await send(url, chat_body())
        assert b" 200 " in await reader.readline()
        writer.close()
        await writer.wait_closed()
    assert len(backend.verify.requests) == 1
