"""A process for what may take for ever or too much memory, so that it can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from typing import Any

from common.errors import Overloaded, Unavailable

_MOST_WAITING = 32
_START_SECONDS = 30.0


class LineProcess:
    """``python -m module``, which says that it is ready, then answers lines of JSON with lines of JSON."""

    def __init__(self, module: str, longest_line: int) -> None:
        self._module = module
        self._longest_line = longest_line
        self._process: Process | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Nothing, when it runs. Raises Unavailable when it cannot be started."""
        if self.running:
            return
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", self._module),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            limit=self._longest_line,
            start_new_session=True,  # a Ctrl-C is for the service to handle
        )
        try:
            async with asyncio.timeout(_START_SECONDS):
                ready = await self.read()
        except (TimeoutError, asyncio.CancelledError):
            await self.close()
            raise
        if not ready:
            await self.close()
            raise Unavailable(f"{self._module} cannot be started")

    def write(self, message: object) -> None:
        assert self._process
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def read(self) -> Any:
        """The next answer; None: there is none any more."""
        assert self._process
        assert self._process.stdout
        line = await self._process.stdout.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def kill(self) -> None:
        """It gives no more answers."""
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def close(self) -> None:
        """Kill the process; ``start`` makes another."""
        self.kill()
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin
        process.stdin.close()
        await process.wait()


class Questions:
    """One question after the other to a process, which is killed when an answer takes longer than ``seconds``
    or too much memory."""

    def __init__(self, process: LineProcess, seconds: float) -> None:
        self._process = process
        self._seconds = seconds
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def ask(self, message: object) -> Any:
        """The answer; None when there is none in time.

        Raises:
            Overloaded: when too many wait already.
        """
        if self._waiting >= _MOST_WAITING:
            raise Overloaded("too many requests are being checked; try again later")
        self._waiting += 1
        try:
            async with self._turn:
                return await self._ask(message)
        finally:
            self._waiting -= 1

    async def _ask(self, message: object) -> Any:
        await self._process.start()
        self._process.write(message)
        answer = None
        try:
            async with asyncio.timeout(self._seconds):
                answer = await self._process.read()
        except TimeoutError:
            pass
        except asyncio.CancelledError:  # its answer would be taken for that of the next
            await self.close()
            raise
        if answer is None:
            await self.close()
        return answer

    async def close(self) -> None:
        await self._process.close()
