"""A slow wire holds what passes and changes nothing of it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from bench.wire.proxy import SlowWire


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(1000):
        writer.write(chunk)
    writer.close()


@asynccontextmanager
async def connected(wire: SlowWire) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """To an echo behind the wire."""
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server, wire.listening() as address:
        wire.port = server.sockets[0].getsockname()[1]
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        yield reader, writer
        writer.close()


async def round_trip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
    started = time.perf_counter()
    writer.write(b"ping")
    assert await reader.readexactly(4) == b"ping"
    return time.perf_counter() - started


@pytest.mark.parametrize("delay", [0.0, 0.003])
async def test_bytes_arrive_in_order_and_intact_with_their_end(delay: float) -> None:
    sent = random.Random(1).randbytes(300_000)
    async with connected(SlowWire(delay)) as (reader, writer), asyncio.timeout(30):
        for start in range(0, len(sent), 7_001):
            writer.write(sent[start : start + 7_001])
            await writer.drain()
        writer.write_eof()
        assert await reader.read(-1) == sent


async def test_every_round_trip_takes_twice_the_delay_from_when_it_is_set() -> None:
    wire = SlowWire()
    async with connected(wire) as ends, asyncio.timeout(30):
        assert await round_trip(*ends) < 0.5
        wire.delay = 0.25
        assert await round_trip(*ends) >= 0.5
        assert wire.held_seconds >= 0.5
        assert wire.held_chunks == 4


async def test_what_is_sent_while_something_is_under_way_is_not_held_longer() -> None:
    async with connected(SlowWire(0.2)) as (reader, writer), asyncio.timeout(30):
        started = time.perf_counter()
        for _ in range(10):
            writer.write(b"x")
            await asyncio.sleep(0.01)
        assert await reader.readexactly(10) == b"x" * 10
        assert 0.4 <= time.perf_counter() - started < 2.0


async def test_a_connection_to_nobody_is_closed() -> None:
    wire = SlowWire()
    async with connected(wire), wire.listening() as address, asyncio.timeout(30):
        wire.port = 1
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        assert await reader.read(1) == b""
        writer.close()


async def test_what_is_joined_is_cut_when_the_wire_goes() -> None:
    wire = SlowWire()
    async with connected(wire) as (reader, writer):
        await round_trip(reader, writer)
        cut = asyncio.create_task(reader.read(1))
    with suppress(ConnectionError):
        assert await asyncio.wait_for(cut, 10) == b""
