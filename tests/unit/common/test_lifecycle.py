"""A service process from its start to its end, and what it says meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

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
