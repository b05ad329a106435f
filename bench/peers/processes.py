"""Peers as child processes: ready when entered, gone when left."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx

from bench.peers.contestant import Row, Worker
from tandem.local import free_ports
from tandem.stack import HOST

_START_SECONDS = 300
_STOP_SECONDS = 20
_ANSWER_SECONDS = 600
_LOG_LINES = 15
_REPOSITORY = Path(__file__).parents[2]


@asynccontextmanager
async def worker(row: Row, python: str, module: str, arguments: Sequence[str]) -> AsyncIterator[Worker]:
    """A module of ``bench.peers.workers``, run by the peer's own Python."""
    command = [python, "-m", f"bench.peers.workers.{module}", *arguments]
    async with _child(command, {"PYTHONPATH": str(_REPOSITORY)}, asyncio.subprocess.PIPE) as process:
        contestant = Worker(row, process)
        await contestant.reply(_START_SECONDS)
        yield contestant


@asynccontextmanager
async def server(command: Sequence[str], environment: Mapping[str, str]) -> AsyncIterator[httpx.AsyncClient]:
    """A server that takes ``--host`` and ``--port`` and says at ``/health`` that it is ready."""
    port = free_ports(0).gateway
    located = [*command, "--host", HOST, "--port", str(port)]
    async with (
        _child(located, environment, asyncio.subprocess.DEVNULL) as process,
        client(f"http://{HOST}:{port}") as connected,
    ):
        async with asyncio.timeout(_START_SECONDS):
            await _healthy(connected, process)
        yield connected


def client(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, timeout=_ANSWER_SECONDS)


async def _healthy(connected: httpx.AsyncClient, process: asyncio.subprocess.Process) -> None:
    while process.returncode is None:
        try:
            if (await connected.get("/health")).is_success:
                return
        except httpx.TransportError:
            pass
        await asyncio.sleep(0.5)
    raise RuntimeError(f"ended with status {process.returncode} before it was ready")


@asynccontextmanager
async def _child(
    command: Sequence[str], environment: Mapping[str, str], pipe: int
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process group of its own, ended with all that it started. A failure carries the end of its log."""
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            *command,
            env={**os.environ, **environment},
            stdin=pipe,
            stdout=pipe,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process
        except BaseException as error:
            log.seek(0)
            error.add_note(b"\n".join(log.read().splitlines()[-_LOG_LINES:]).decode(errors="replace"))
            raise
        finally:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """SIGTERM to the leader, who ends its own children; then SIGKILL to whoever is left of the group."""
    if process.returncode is None:
        process.terminate()
    with suppress(TimeoutError):
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
