"""The service in this process: what it lets go of when it stops."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from typing import ClassVar

import pytest
from redis.asyncio import Redis

from fact_check_service import ending, server
from fact_check_service.checks import registry
from fact_check_service.checks.base import Context, Finding
from fact_check_service.config import Config
from tests.integration.fact_check.support import has_group, until
from tests.support.valkey import Valkey

STOP_SECONDS = 20.0


class Watched:
    """A check that says what became of it; ``made`` are those that were made."""

    name = "watched"
    made: ClassVar[list[Watched]] = []

    def __init__(self, config: Config) -> None:
        self.closed = False
        self.made.append(self)

    async def judge(self, context: Context) -> Sequence[Finding]:
        return ()

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
async def config(valkey: Valkey, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Config]:
    point = EntryPoint("watched", f"{__name__}:Watched", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda **_: EntryPoints([point]))
    yield Config(redis_url=valkey.url, read_block_ms=20, check_ms=20, metrics_port=0, drain_seconds=0.2)
    Watched.made.clear()


async def stopped(serving: asyncio.Task[None]) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(asyncio.shield(serving), STOP_SECONDS)


async def test_the_checks_are_closed_when_the_service_stops(config: Config, redis: Redis) -> None:
    serving = asyncio.create_task(server.serve(replace(config, checks=("watched",))))
    await until(lambda: has_group(redis))
    (check,) = Watched.made
    assert not check.closed
    await stopped(serving)
    assert check.closed


async def test_the_checks_are_closed_when_the_service_fails(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_metrics(port: int) -> None:
        raise OSError("address in use")

    monkeypatch.setattr(server, "serve_metrics", no_metrics)
    with pytest.raises(OSError, match="address in use"):
        await server.serve(replace(config, checks=("watched",)))
    (check,) = Watched.made
    assert check.closed


async def test_a_worker_that_does_not_notice_its_end_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ending, "CANCEL_SECONDS", 0.05)
    released, stop = asyncio.Event(), asyncio.Event()

    class Endless:
        async def run(self, stop: asyncio.Event) -> None:
            while not released.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await released.wait()

    stop.set()
    async with asyncio.timeout(STOP_SECONDS):
        await server._run(Endless(), stop, 0.05)  # type: ignore[arg-type]
    released.set()


async def test_a_workers_own_failure_ends_the_service() -> None:
    class Broken:
        async def run(self, stop: asyncio.Event) -> None:
            raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        await server._run(Broken(), asyncio.Event(), 1.0)  # type: ignore[arg-type]
