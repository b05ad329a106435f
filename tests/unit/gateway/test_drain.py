"""The process as it is started and stopped in production."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.unit.gateway.fakes import FINISHED, STARTED, Backend, delta, script
from tests.unit.gateway.requests import CHAT, chat_body, sse_objects


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment(**settings: Any) -> dict[str, str]:
    ours = {f"TANDEM_GATEWAY_{name.upper()}": str(value) for name, value in settings.items()}
    return {**os.environ, **ours}


@asynccontextmanager
async def gateway_process(
    backend: Backend, **settings: Any
) -> AsyncIterator[tuple[asyncio.subprocess.Process, httpx.AsyncClient]]:
    port = free_port()
    env = environment(host="127.0.0.1", port=port, router_address=backend.router_address, **settings)
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "gateway", env=env)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            await until_alive(client)
            yield process, client
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def until_alive(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                await client.get("/livez")
            except httpx.ConnectError:
                await asyncio.sleep(0.05)
            else:
                return


async def until_unready(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(5):
        while True:
            if (await client.get("/readyz")).status_code == 503:
                return
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_draining_gateway_finishes_what_runs_and_takes_nothing_new(
    backend: Backend, number: signal.Signals
) -> None:
    finish = asyncio.Event()
    backend.verify.script = script(STARTED, delta("a"), finish, delta("b"), FINISHED)
    async with gateway_process(backend) as (process, client):
        assert (await client.get("/readyz")).status_code == 200
        async with client.stream("POST", CHAT, json=chat_body(stream=True)) as running:
            process.send_signal(number)
            await until_unready(client)
            assert (await client.post(CHAT, json=chat_body())).status_code == 503
            finish.set()
            body = (await running.aread()).decode()
        assert sse_objects(body)[-1] == "[DONE]"
        async with asyncio.timeout(5):
            assert await process.wait() == 0


async def test_an_answer_longer_than_the_drain_is_cut_off(backend: Backend) -> None:
    backend.verify.script = script(STARTED, delta("a"), asyncio.Event())
    async with gateway_process(backend, drain_seconds=0.1) as (process, client):
        async with client.stream("POST", CHAT, json=chat_body(stream=True)) as running:
            process.send_signal(signal.SIGTERM)
            with pytest.raises(httpx.RemoteProtocolError):
                await running.aread()
        async with asyncio.timeout(5):
            assert await process.wait() == 0
            await backend.verify.cancelled.wait()


async def test_a_bad_variable_stops_the_process_and_is_named() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", env=environment(port="none"), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode != 0
    assert b"TANDEM_GATEWAY_PORT" in errors
