"""``tandem serve`` as a person runs it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import fields

import pytest

from tandem.local import free_ports
from tandem.stack import Ports
from tests.e2e.client import Client

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(240)]


def moved(ports: Ports) -> dict[str, str]:
    """The environment that puts every service on its own free port."""
    variables = {
        "gateway": "TANDEM_GATEWAY_PORT",
        "router": "TANDEM_ROUTER_PORT",
        "verify": "TANDEM_VERIFY_PORT",
        "draft": "TANDEM_DRAFT_PORT",
        "valkey": "TANDEM_VALKEY_PORT",
        "router_metrics": "TANDEM_ROUTER_METRICS_PORT",
        "router_admin": "TANDEM_ROUTER_ADMIN_PORT",
        "verify_metrics": "TANDEM_VERIFY_METRICS_PORT",
        "draft_metrics": "TANDEM_DRAFT_METRICS_PORT",
        "fact_check_metrics": "TANDEM_FACT_CHECK_METRICS_PORT",
    }
    return {variables[field.name]: str(getattr(ports, field.name)) for field in fields(ports)}


async def test_ctrl_c_lets_a_running_answer_finish_and_then_everything_stops() -> None:
    ports = free_ports(draft_pools=1)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tandem",
        "serve",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **moved(ports)},
        start_new_session=True,
    )
    assert process.stdout is not None
    log = b""
    while b"Tandem is ready" not in log:
        line = await process.stdout.readline()
        assert line, log.decode()
        log += line
    assert f"http://127.0.0.1:{ports.gateway}/v1".encode() in log

    def interrupt(chunks: int) -> None:
        if chunks == 3:
            os.killpg(process.pid, signal.SIGINT)  # what a terminal does on Ctrl-C

    client = Client(f"http://127.0.0.1:{ports.gateway}")
    body = {"messages": [{"role": "user", "content": "Count to twenty."}], "max_tokens": 40, "temperature": 0}
    reply = await client.stream(body, interrupt)
    await client.close()
    assert reply.finish_reason in {"stop", "length"}
    assert reply.completion_tokens > 10
    await process.stdout.read()
    assert await process.wait() == 0
