"""Tails the stream of fact-check verdicts. Redis may be absent, slow or restarted: generation goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence as Seq
from typing import Any

import redis.asyncio as redis
from redis.exceptions import RedisError

from common import logging, streams
from common.draft_types import Block
from common.errors import InvalidRequest
from verify_service import metrics
from verify_service.facts import FactCheckSession

_READ_BLOCK_MS = 1000
_READ_COUNT = 256
_RETRY_SECONDS = 0.5
_TICK_SECONDS = 0.001
"""A timer waits for whole ones: with less than half of one left, a wait would go well past its time."""

log = logging.get("tags")


class TagReader:
    """Hands each verdict to the session that watches for it.

    ``alive`` says whether the last read reached Redis; nobody waits for a verdict while it is False.
    """

    def __init__(self, url: str) -> None:
        self.enabled = bool(url)
        self.alive = False
        self._redis = _connect(url) if url else None
        self._watchers: dict[str, FactCheckSession] = {}
        self._arrived = asyncio.Event()

    def watch(self, session_id: str, session: FactCheckSession) -> None:
        self._watchers[session_id] = session

    def unwatch(self, session_id: str) -> None:
        self._watchers.pop(session_id, None)

    async def wait(self, blocks: Seq[tuple[FactCheckSession, Block]], timeout_seconds: float) -> None:
        """Until every block has its verdict, at most the timeout, and not at all on a dead Redis."""
        time = asyncio.get_running_loop().time
        deadline = time() + timeout_seconds
        with metrics.TAG_WAIT_SECONDS.time(), contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while self.alive and not all(session.has_tag(block) for session, block in blocks):
                    self._arrived.clear()
                    await self._arrived.wait()
                    if deadline - time() < _TICK_SECONDS / 2:
                        return

    async def run(self) -> None:
        """Read until cancelled; start again at the newest verdict whenever the connection was lost."""
        while self._redis is not None:
            try:
                await self._tail(self._redis)
            except (RedisError, OSError) as error:
                if self.alive:
                    log.warning("fact-check verdicts are out of reach", error=str(error))
                self.alive = False
                self._arrived.set()
                await asyncio.sleep(_RETRY_SECONDS)

    async def close(self) -> None:
        if self._redis is not None:
            await self._redis.aclose()

    async def _tail(self, client: Any) -> None:
        newest = await client.xrevrange(streams.TAGS, count=1)
        last_id: Any = newest[0][0] if newest else "0-0"
        self.alive = True
        while True:
            answer = await client.xread({streams.TAGS: last_id}, count=_READ_COUNT, block=_READ_BLOCK_MS)
            for entry_id, fields in answer[0][1] if answer else ():
                last_id = entry_id
                self._deliver(fields)

    def _deliver(self, fields: dict[bytes, bytes]) -> None:
        try:
            tag = streams.decode_tag(fields)
        except InvalidRequest as error:
            metrics.TAGS.labels("malformed").inc()
            log.warning("malformed verdict", error=error.message)
            return
        session = self._watchers.get(tag.session_id)
        if session is None:
            metrics.TAGS.labels("unwatched").inc()
            return
        metrics.TAGS.labels("delivered" if session.add_tag(tag) else "late").inc()
        self._arrived.set()


def _connect(url: str) -> Any:
    """Protocol 2 answers XREAD with a list of streams whatever the server's version."""
    return redis.Redis.from_url(url, protocol=2, socket_connect_timeout=1, socket_timeout=5)
