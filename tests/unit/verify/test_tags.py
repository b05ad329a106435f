"""Tailing verdicts from a real Valkey that lives, dies and comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import redis.asyncio as redis

from common import streams
from common.draft_types import Block
from common.streams import Flag, TagRecord
from common.types import FactCheck
from tests.support.valkey import Valkey, free_port, require_valkey
from tests.unit.verify.support import counting, until
from verify_service.facts import FactCheckSession
from verify_service.tags import TagReader

BLOCK = Block(1, 10, (20, 21))
TAG = TagRecord("session", 1, 10, (Flag(0, 1, "t", "r", "e"),))


@pytest.fixture
async def valkey() -> AsyncGenerator[Valkey, None]:
    require_valkey()
    async with Valkey() as server:
        yield server


@asynccontextmanager
async def tailing(url: str) -> AsyncGenerator[TagReader, None]:
    reader = TagReader(url)
    task = asyncio.create_task(reader.run())
    try:
        yield reader
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await reader.close()


def watched(reader: TagReader, session_id: str = "session") -> FactCheckSession:
    session = FactCheckSession(FactCheck.VETO)
    reader.watch(session_id, session)
    return session


async def add(server: Valkey, *entries: dict[bytes, bytes] | TagRecord) -> None:
    async with redis.Redis.from_url(server.url, protocol=2) as client:
        for entry in entries:
            fields = streams.encode(entry) if isinstance(entry, TagRecord) else entry
            await client.xadd(streams.TAGS, fields)  # type: ignore[arg-type]


async def test_a_verdict_reaches_the_session_that_watches_and_nobody_else(valkey: Valkey) -> None:
    async with tailing(valkey.url) as reader:
        ours, other = watched(reader), watched(reader, "other")
        await until(lambda: reader.alive)
        with counting("tandem_fact_check_tags_total", outcome="delivered") as delivered:
            await add(valkey, TAG)
            await until(lambda: ours.has_tag(BLOCK))
        assert delivered.by == 1
        assert not other.has_tag(BLOCK)


async def test_a_verdict_nobody_watches_for_is_counted(valkey: Valkey) -> None:
    async with tailing(valkey.url) as reader:
        gone, ours = watched(reader, "gone"), watched(reader)
        reader.unwatch("gone")
        reader.unwatch("never there")
        await until(lambda: reader.alive)
        with counting("tandem_fact_check_tags_total", outcome="unwatched") as unwatched:
            await add(valkey, TagRecord("gone", 1, 10, ()), TAG)
            await until(lambda: ours.has_tag(BLOCK))
        assert unwatched.by == 1
        assert not gone.has_tag(BLOCK)


async def test_verdicts_from_before_the_start_are_not_read(valkey: Valkey) -> None:
    await add(valkey, TagRecord("session", 2, 10, ()))
    async with tailing(valkey.url) as reader:
        ours = watched(reader)
        await until(lambda: reader.alive)
        await add(valkey, TAG)
        await until(lambda: ours.has_tag(BLOCK))
        assert not ours.has_tag(Block(2, 10, (1,)))


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"not json", id="no json"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"flags": []}', id="fields missing"),
        pytest.param(
            b'{"session_id": [], "block_id": 1, "base_length": 1, "flags": []}', id="a list for a session"
        ),
        pytest.param(
            b'{"session_id": "session", "block_id": [], "base_length": 10, "flags": []}',
            id="a list for a block",
        ),
        pytest.param(
            b'{"session_id": "session", "block_id": 1, "base_length": 10, "flags": [{"first_token": "x", '
            b'"end_token": "y", "text": "", "rule": "", "evidence": ""}]}',
            id="words for token numbers",
        ),
    ],
)
async def test_an_entry_that_is_no_verdict_is_counted_and_the_next_one_still_comes(
    valkey: Valkey, payload: bytes
) -> None:
    async with tailing(valkey.url) as reader:
        ours, other = watched(reader), watched(reader, "other")
        ours.add_block(BLOCK)
        await until(lambda: reader.alive)
        with counting("tandem_fact_check_tags_total", outcome="malformed") as malformed:
            await add(valkey, {b"payload": payload}, {b"other": b""}, TagRecord("other", 1, 10, ()))
            await until(lambda: other.has_tag(BLOCK), seconds=2)
        assert malformed.by == 2


async def test_a_killed_server_turns_the_reader_dead_and_a_new_one_alive_again(valkey: Valkey) -> None:
    async with tailing(valkey.url) as reader:
        ours = watched(reader)
        await until(lambda: reader.alive)
        await add(valkey, TAG)
        await until(lambda: ours.has_tag(BLOCK))
        await valkey.kill()
        await until(lambda: not reader.alive)
        await valkey.restart()
        await until(lambda: reader.alive, seconds=10)
        await add(valkey, TagRecord("session", 2, 12, ()))
        await until(lambda: ours.has_tag(Block(2, 12, (1,))))


async def test_a_wait_ends_when_the_verdict_comes_or_the_server_dies_or_the_time_is_up(
    valkey: Valkey,
) -> None:
    async with tailing(valkey.url) as reader:
        ours = watched(reader)
        await until(lambda: reader.alive)
        started = time.monotonic()
        await reader.wait([(ours, BLOCK)], 0.05)
        assert 0.03 < time.monotonic() - started < 1
        waiting = asyncio.create_task(reader.wait([(ours, BLOCK)], 5))
        await asyncio.sleep(0.01)
        await add(valkey, TAG)
        await waiting
        await reader.wait([(ours, BLOCK)], 5)
        later = asyncio.create_task(reader.wait([(ours, Block(9, 9, (1,)))], 5))
        await asyncio.sleep(0.01)
        await valkey.kill()
        await later
        assert not reader.alive
        assert time.monotonic() - started < 4


async def test_a_wait_is_measured(valkey: Valkey) -> None:
    async with tailing(valkey.url) as reader:
        ours = watched(reader)
        await until(lambda: reader.alive)
        with (
            counting("tandem_fact_check_tag_wait_seconds_count") as waits,
            counting("tandem_fact_check_tag_wait_seconds_sum") as seconds,
        ):
            await reader.wait([(ours, BLOCK)], 0.05)
        assert waits.by == 1
        assert 0.03 < seconds.by < 1


@pytest.mark.parametrize("configured", [True, False])
async def test_nobody_waits_for_a_server_that_is_not_there(configured: bool) -> None:
    url = f"redis://127.0.0.1:{free_port()}/0" if configured else ""
    async with tailing(url) as reader:
        assert reader.enabled is configured
        await asyncio.sleep(0.02)
        started = time.monotonic()
        await reader.wait([(watched(reader), BLOCK)], 5)
        assert time.monotonic() - started < 0.5
        assert not reader.alive
