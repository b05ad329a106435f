"""A wire that takes its time: a TCP proxy that holds all that passes for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from tandem.stack import HOST

_CHUNK_BYTES = 1 << 16
_QUEUED_CHUNKS = 64  # then the sender has to wait, as on a full wire
_SLEEPERS = 32  # one for each way of each connection that something is under way on

_Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class SlowWire:
    """Everything arrives in order and intact, ``delay`` seconds after it was sent, in both directions.

    Attributes:
        port: here, of the service that connections lead to; may be set after others know the wire's address.
        delay: may change at any time, for what is sent from then on.
        held_seconds, held_chunks: how long all that arrived was really under way, and how much that was.
    """

    def __init__(self, delay: float = 0.0) -> None:
        self.port = 0
        self.delay = delay
        self.held_seconds = 0.0
        self.held_chunks = 0
        # The event loop wakes up at whole milliseconds only; a thread's sleep is exact enough.
        self._sleepers = ThreadPoolExecutor(_SLEEPERS, "slow-wire")
        self._joined: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """The address to be connected to; every connection is cut in the end."""
        server = await asyncio.start_server(self._join, HOST, 0)
        try:
            yield f"{HOST}:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for writer in self._writers:
                writer.transport.abort()
            await asyncio.gather(*self._joined, return_exceptions=True)
            self._sleepers.shutdown()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._joined.add(task)
        task.add_done_callback(self._joined.discard)
        try:
            there = await asyncio.open_connection(HOST, self.port)
        except OSError:  # nobody listens there yet, or any more
            writer.close()
            return
        await self._carry_both((reader, writer), there)

    async def _carry_both(self, here: _Ends, there: _Ends) -> None:
        """Until both ways have ended, or one is broken."""
        writers = {here[1], there[1]}
        self._writers |= writers
        ways = [
            asyncio.create_task(self._carry(here[0], there[1])),
            asyncio.create_task(self._carry(there[0], here[1])),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_EXCEPTION)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for writer in writers:
            writer.close()
        self._writers -= writers

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One way, its end included."""
        under_way: asyncio.Queue[tuple[float, float, bytes]] = asyncio.Queue(_QUEUED_CHUNKS)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._take_in(reader, under_way))
            await self._give_out(under_way, writer)

    async def _take_in(
        self, reader: asyncio.StreamReader, under_way: asyncio.Queue[tuple[float, float, bytes]]
    ) -> None:
        chunk = b"any"
        while chunk:
            chunk = await reader.read(_CHUNK_BYTES)
            now = time.perf_counter()
            await under_way.put((now, now + self.delay, chunk))

    async def _give_out(
        self, under_way: asyncio.Queue[tuple[float, float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        while True:
            sent, due, chunk = await under_way.get()
            await self._until(due)
            if not chunk:
                break
            self.held_seconds += time.perf_counter() - sent
            self.held_chunks += 1
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()

    async def _until(self, due: float) -> None:
        left = due - time.perf_counter()
        if left > 0:
            await asyncio.get_running_loop().run_in_executor(self._sleepers, time.sleep, left)
