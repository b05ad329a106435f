"""A service process from its start to its end, and what it says meanwhile."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager

from prometheus_client import REGISTRY

from common import lifecycle

PATIENCE_SECONDS = 20
PREAMBLE = """
import asyncio, logging
from common import lifecycle
from common import logging as ours
from common.errors import ConfigError
async def main():
"""
STOPPABLE = """
    stop = lifecycle.stop_event()
    print("ready", flush=True)
    await stop.wait()
    print("stopped")
"""


@contextmanager
def service(body: str, level: str = "info") -> Iterator[subprocess.Popen[str]]:
    """A process whose ``main`` has this body."""
    code = f"{PREAMBLE}{body}\nlifecycle.run('example', main(), '{level}')"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_configuration_found_wrong_after_the_start_exits_with_status_2_and_no_traceback() -> None:
    with service("    raise ConfigError('layers must be between 1 and 3', field='layers')") as process:
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out) == (2, "")
    assert err == "example: TANDEM_EXAMPLE_LAYERS: layers must be between 1 and 3\n"


def test_sigterm_and_sigint_stop_a_service_that_waits_for_them() -> None:
    with service(STOPPABLE) as terminated, service(STOPPABLE) as interrupted:
        for process, number in ((terminated, signal.SIGTERM), (interrupted, signal.SIGINT)):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
            assert (process.returncode, out, err) == (0, "stopped\n", "")


def test_logs_are_lines_of_json_that_name_the_service_and_keep_to_the_level() -> None:
    body = """
    ours.get("part").info("said", count=3)
    ours.get("part").debug("hidden")
    logging.getLogger("library").warning("from %s", "elsewhere")
    logging.getLogger("library").info("shown")
"""
    with service(body) as process:
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    lines = [json.loads(line) for line in err.splitlines()]
    assert out == ""
    assert [line["event"] for line in lines] == ["said", "from elsewhere", "shown"]
    assert {line["service"] for line in lines} == {"example"}
    assert (lines[0]["component"], lines[0]["count"], lines[0]["level"]) == ("part", 3, "info")
    assert all("timestamp" in line for line in lines)


def lag(suffix: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"tandem_event_loop_lag_seconds_{suffix}", labels) or 0.0


def late_by(seconds: str) -> float:
    """Samples that were later than that."""
    return lag("count") - lag("bucket", le=seconds)


@asynccontextmanager
async def watching() -> AsyncGenerator[None, None]:
    task = asyncio.create_task(lifecycle.watch_event_loop())
    await asyncio.sleep(0)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_loop_that_is_blocked_shows_and_for_how_long() -> None:
    late, total = late_by("0.25"), lag("sum")
    async with watching():
        time.sleep(0.5)  # noqa: ASYNC251 - this is what must show
        await asyncio.sleep(0.02)
    assert late_by("0.25") == late + 1
    assert lag("sum") - total > 0.4


async def test_a_loop_that_only_waits_is_not_late() -> None:
    late, count = late_by("0.25"), lag("count")
    async with watching():
        await asyncio.to_thread(time.sleep, 0.5)
    assert late_by("0.25") == late
    assert lag("count") > count


def test_every_service_that_runs_measures_the_lag_of_its_loop() -> None:
    body = """
    import prometheus_client, time
    await asyncio.sleep(0)
    time.sleep(0.3)
    await asyncio.sleep(0.02)
    print(prometheus_client.REGISTRY.get_sample_value("tandem_event_loop_lag_seconds_sum"))
"""
    with service(body) as process:
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, err) == (0, "")
    assert float(out) > 0.2
