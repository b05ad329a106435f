"""``python -m router`` as an operator meets it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from common import rpc
from tests.unit.router.fakes import FakeVerify, eventually, free_port, listening


async def start(**variables: str) -> asyncio.subprocess.Process:
    own = {name: value for name, value in os.environ.items() if not name.startswith("TANDEM_")}
    given = {f"TANDEM_ROUTER_{name}": value for name, value in variables.items()}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "router", env=own | given, stderr=asyncio.subprocess.PIPE
    )


async def test_it_turns_ready_and_ends_cleanly_on_sigterm() -> None:
    port = free_port()
    async with listening(FakeVerify()) as verify:
        process = await start(
            VERIFY=f'["{verify}"]', HOST="127.0.0.1", PORT=str(port), METRICS_PORT="0", DRAIN_SECONDS="0.1"
        )
        try:
            await eventually(lambda: rpc.healthy(f"127.0.0.1:{port}"))
        finally:
            process.send_signal(signal.SIGTERM)
            _, errors = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0, errors.decode()


async def test_a_bad_variable_stops_it_with_a_message_that_names_it() -> None:
    process = await start(VERIFY='["nowhere"]')
    _, errors = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode != 0
    assert errors.decode().strip() == "router: TANDEM_ROUTER_VERIFY: 'nowhere' is not host:port"
