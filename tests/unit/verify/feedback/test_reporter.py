"""Feedback on its way to Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis.asyncio as redis

from common import streams
from common.draft_types import Block
from common.errors import ConfigError
from common.feedback import FeedbackRecord, decode_feedback
from common.types import GenerateRequest, Mode, Terms
from tests.support.scripted import CharTokenizer
from tests.support.valkey import Valkey, free_port, require_valkey
from verify_service import metrics
from verify_service.feedback.notes import Notes
from verify_service.feedback.reporter import Reporter
from verify_service.sequence import Sequence

TOKENIZER = CharTokenizer()
SECONDS = 10.0


@pytest.fixture
async def valkey() -> AsyncGenerator[Valkey, None]:
    require_valkey()
    async with Valkey() as server:
        yield server


def sequence(sampled: bool = False) -> Sequence:
    tokens = TOKENIZER.encode("abcdef")
    made = Sequence(
        session_id="s",
        request=GenerateRequest("r", [1], terms=Terms("code")),
        tokens=tokens,
        prompt_length=2,
        max_length=10,
        mode=Mode.KEYED,
        seed=1,
        block_size=4,
        output=None,  # type: ignore[arg-type]
        notes=Notes(sampled),
    )
    made.notes.compare(Block(1, 2, tuple(TOKENIZER.encode("cx"))))
    return made


@asynccontextmanager
async def running(reporter: Reporter) -> AsyncGenerator[None, None]:
    task = asyncio.create_task(reporter.run())
    try:
        async with asyncio.timeout(SECONDS):
            yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await reporter.close()


async def arrived(valkey: Valkey, count: int) -> list[FeedbackRecord]:
    connected: Any = redis.Redis.from_url(valkey.url, protocol=2)
    async with connected as client:
        while len(entries := await client.xrange(streams.FEEDBACK)) < count:
            await asyncio.sleep(0.01)
    return [decode_feedback(fields) for _, fields in entries]


def alike(one: str, other: str) -> float:
    return 1.0 if one == other else 0.25


async def test_a_record_arrives_as_it_was(valkey: Valkey) -> None:
    reporter = Reporter(valkey.url, TOKENIZER.decode, lambda: alike)
    async with running(reporter):
        reporter.report(sequence(), finished=True)
        reporter.report(sequence(sampled=True), finished=False)
        plain, sampled = await arrived(valkey, 2)
    assert (plain.prompt_class, plain.finished, plain.consistency) == ("code", True, None)
    assert (sampled.finished, sampled.consistency) == (False, 0.25)


async def test_where_nothing_can_compare_the_rest_is_reported(valkey: Valkey) -> None:
    calls = 0

    def missing() -> object:
        nonlocal calls
        calls += 1
        raise ConfigError("needs a package", field="policy")

    reporter = Reporter(valkey.url, TOKENIZER.decode, missing)  # type: ignore[arg-type]
    async with running(reporter):
        reporter.report(sequence(sampled=True), finished=True)
        reporter.report(sequence(sampled=True), finished=True)
        records = await arrived(valkey, 2)
    assert [record.consistency for record in records] == [None, None]
    assert calls == 1


async def test_a_redis_that_is_away_costs_records_and_nothing_else() -> None:
    reporter = Reporter(f"redis://127.0.0.1:{free_port()}/0", TOKENIZER.decode, lambda: alike)
    failed = metrics.FEEDBACK.labels("failed")
    before = failed._value.get()
    async with running(reporter):
        reporter.report(sequence(), finished=True)
        while failed._value.get() == before:
            await asyncio.sleep(0.01)


async def test_a_full_queue_drops_and_counts() -> None:
    reporter = Reporter(f"redis://127.0.0.1:{free_port()}/0", TOKENIZER.decode, lambda: alike)
    dropped = metrics.FEEDBACK.labels("dropped")
    before = dropped._value.get()
    for _ in range(1030):
        reporter.report(sequence(), finished=True)
    assert dropped._value.get() - before == 6
    await reporter.close()


async def test_without_redis_nobody_is_told() -> None:
    reporter = Reporter("", TOKENIZER.decode, lambda: alike)
    reporter.report(sequence(), finished=True)
    await reporter.run()
