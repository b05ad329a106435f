"""A fresh Valkey for each test, and workers that run as tasks of it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from typing import Any, Protocol

import pytest
from redis.asyncio import Redis

from fact_check_service.checks.base import Judge
from fact_check_service.checks.checker import Checker
from fact_check_service.checks.rules import RuleCheck
from fact_check_service.config import Config
from fact_check_service.rules import load_rules
from fact_check_service.worker import Worker, connect
from tests.support.valkey import Valkey, require_valkey

RULES = load_rules("")
HASTY = Config(read_block_ms=20, claim_every_seconds=0.05, claim_idle_ms=400, check_ms=20, max_age_ms=60_000)
END_SECONDS = 5.0


@pytest.fixture
async def valkey() -> AsyncIterator[Valkey]:
    require_valkey()
    async with Valkey() as server:
        yield server


@pytest.fixture
async def redis(valkey: Valkey) -> AsyncIterator[Redis]:
    async with Redis.from_url(valkey.url, protocol=2) as client:
        yield client


class StartWorker(Protocol):
    """Starts a worker as a task of the test; ``settings`` are fields of its configuration."""

    def __call__(
        self, consumer: str, checker: Judge | None = None, **settings: Any
    ) -> asyncio.Task[None]: ...


@pytest.fixture
async def start_worker(valkey: Valkey) -> AsyncIterator[StartWorker]:
    """Every worker that still runs at the end of the test is told to stop."""
    stop = asyncio.Event()
    tasks: list[asyncio.Task[None]] = []

    def start(consumer: str, checker: Judge | None = None, **settings: Any) -> asyncio.Task[None]:
        config = dataclasses.replace(HASTY, redis_url=valkey.url, consumer=consumer, **settings)
        tasks.append(asyncio.create_task(work(config, checker or Checker([RuleCheck(RULES)], 5.0), stop)))
        return tasks[-1]

    yield start
    stop.set()
    outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), END_SECONDS)
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]


async def work(config: Config, checker: Judge, stop: asyncio.Event) -> None:
    async with connect(config) as client:
        await Worker(client, checker, config).run(stop)
