"""The service as it is deployed: ``python -m fact_check_service`` in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from redis.asyncio import Redis

from common import streams
from tests.integration.fact_check.conftest import StartWorker
from tests.integration.fact_check.support import WRONG, append, block, has_group, pending, tagged, until
from tests.support.valkey import Valkey, free_port

ROOT = Path(__file__).parents[3]


def command(url: str, **settings: str | int) -> dict[str, str]:
    """The environment of a service that talks to ``url``."""
    prefix = "TANDEM_FACT_CHECK_"
    given = {"redis_url": url, "metrics_port": 0, "read_block_ms": 50, **settings}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(prefix)}
    return inherited | {f"{prefix}{name.upper()}": str(value) for name, value in given.items()}


@asynccontextmanager
async def service(url: str, **settings: str | int) -> AsyncIterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "fact_check_service"],
        cwd=ROOT,
        env=command(url, **settings),
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        await asyncio.to_thread(process.wait)


async def test_sigterm_finishes_the_batch_and_exits_with_zero(valkey: Valkey, redis: Redis) -> None:
    async with service(valkey.url) as process:
        await append(redis, map(block, range(300)))
        await until(lambda: has_any_tag(redis))
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 10) == 0
    assert await pending(redis) == 0
    assert set((await tagged(redis)).values()) == {1}


async def test_sigterm_ends_a_service_whose_redis_is_away(valkey: Valkey, redis: Redis) -> None:
    async with service(valkey.url, drain_seconds=3) as process:
        await append(redis, [block(1)])
        await until(lambda: has_any_tag(redis))
        await valkey.kill()
        await asyncio.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 10) == 0


async def test_what_a_killed_process_left_pending_is_taken_over(
    valkey: Valkey, redis: Redis, start_worker: StartWorker
) -> None:
    long_text = WRONG + " and so on" * 300
    async with service(valkey.url, batch_size=300) as process:
        await until(lambda: has_group(redis))
        await append(redis, (block(number, long_text) for number in range(300)))
        await until(lambda: holds_entries(redis))
        process.send_signal(signal.SIGSTOP)  # freezes it in mid-batch, so that SIGKILL is not too late
        left = await pending(redis)
        process.kill()
        await asyncio.to_thread(process.wait)
    assert left > 0
    start_worker("survivor")
    await until(lambda: all_tagged(redis, 300))
    assert await pending(redis) == 0


async def test_metrics_start_at_zero_with_every_check(valkey: Valkey, redis: Redis) -> None:
    port = free_port()
    async with service(valkey.url, metrics_port=port):
        await until(lambda: has_group(redis))
        page = await asyncio.to_thread(_fetch, f"http://127.0.0.1:{port}/metrics")
    for name in ("blocks_total", "malformed_total", "claimed_total", 'flags_total{check="rules"}'):
        assert f"tandem_fact_check_{name} 0.0" in page
    assert "tandem_fact_check_seconds_count 0.0" in page


@pytest.mark.parametrize(
    ("name", "value"), [("rules_path", "/no/such/rules.yaml"), ("batch_size", "many"), ("colour", "red")]
)
async def test_a_bad_variable_stops_the_service_and_is_named(name: str, value: str) -> None:
    environment = command("redis://127.0.0.1:1/0", **{name: value})
    arguments = [sys.executable, "-m", "fact_check_service"]
    ended = await asyncio.to_thread(
        subprocess.run,
        arguments,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode != 0
    assert f"TANDEM_FACT_CHECK_{name.upper()}" in ended.stderr
    assert "Traceback" not in ended.stderr


async def has_any_tag(redis: Redis) -> bool:
    return bool(await redis.exists(streams.TAGS))


async def holds_entries(redis: Redis) -> bool:
    return await pending(redis) > 0


async def all_tagged(redis: Redis, count: int) -> bool:
    return len(await tagged(redis)) == count


def _fetch(url: str) -> str:
    with urlopen(url, timeout=5) as answer:
        body: bytes = answer.read()
    return body.decode()
