"""A stack in the background, for benchmarks and tests: own ports, own logs, processes that can be killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Self

from tandem.ready import wait_ready
from tandem.stack import Draft, Ports, Stack

_STOP_SECONDS = 60


class LocalStack:
    """``with LocalStack(...) as stack``: ready when entered, all of it gone when left."""

    def __init__(
        self,
        drafts: Mapping[str, Draft] | None = None,
        environment: Mapping[str, str] | None = None,
        ready_seconds: float = 180,
        verify_module: str = "verify_service",
        learning: bool = False,
    ) -> None:
        pools = {"ngram": Draft()} if drafts is None else drafts
        self.stack = Stack(free_ports(len(pools)), pools, environment or {}, verify_module, learning)
        self._ready_seconds = ready_seconds
        self._folder = tempfile.TemporaryDirectory(prefix="tandem-")
        self.logs = Path(self._folder.name)
        self._supervisor: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self.stack.url

    def __enter__(self) -> Self:
        self._config = self.stack.write_supervisor_config(self.logs, self.logs)
        command = [sys.executable, "-m", "supervisor.supervisord", "-n", "-c", str(self._config)]
        self._supervisor = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            asyncio.run(wait_ready(self.stack, self._ready_seconds))
        except BaseException as error:
            error.add_note(self.tail())
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(self.tail())
        self._stop()

    def pid(self, name: str) -> int:
        """The process id of ``verify``, ``draft-ngram``, ``valkey``, …"""
        return int(self._control("pid", name))

    def kill(self, name: str) -> None:
        """SIGKILL; supervisord starts the process again."""
        os.kill(self.pid(name), signal.SIGKILL)

    def stop(self, name: str) -> None:
        """Stop a process for good."""
        self._control("stop", name)

    def tail(self, lines: int = 15) -> str:
        """The end of every process's log."""
        logs = sorted(self.logs.glob("*.log"))
        return "\n".join(
            f"--- {log.name}\n" + "\n".join(log.read_text().splitlines()[-lines:]) for log in logs
        )

    def _control(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "supervisor.supervisorctl", "-c", str(self._config), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def _stop(self) -> None:
        assert self._supervisor is not None
        self._supervisor.terminate()
        try:
            self._supervisor.wait(_STOP_SECONDS)
        finally:
            self._folder.cleanup()


def free_ports(draft_pools: int) -> Ports:
    """Ports nothing listens on right now; the draft pools' are neighbours."""
    names = [field.name for field in fields(Ports) if field.name != "draft"]
    sockets = [socket.socket() for _ in names]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        found = {name: int(each.getsockname()[1]) for name, each in zip(names, sockets, strict=True)}
        return Ports(**found, draft=_free_run(draft_pools))
    finally:
        for each in sockets:
            each.close()


def _free_run(length: int) -> int:
    """The first of ``length`` neighbouring free ports."""
    for first in range(20_000, 32_000, max(length, 1)):
        sockets = [socket.socket() for _ in range(length)]
        try:
            for offset, each in enumerate(sockets):
                each.bind(("127.0.0.1", first + offset))
        except OSError:
            continue
        finally:
            for each in sockets:
                each.close()
        return first
    raise RuntimeError("no free ports for the drafts")
