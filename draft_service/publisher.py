"""Appends drafted blocks with their text to the fact-check stream. Never holds up drafting."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Protocol

import redis.asyncio as redis
from redis.exceptions import RedisError

from common import logging, streams
from common.draft_types import Block
from draft_service import metrics
from draft_service.session import Session

_QUEUE = 1000
_TAIL_TOKENS = 64
_RETRY_SECONDS = 0.5

log = logging.get("publisher")


class Decoder(Protocol):
    def decode(self, token_ids: Sequence[int]) -> str: ...


class Publisher:
    """A bounded queue in front of Redis: what does not fit, or cannot be sent, is dropped and counted."""

    def __init__(self, url: str, decoder: Decoder) -> None:
        self._redis = redis.Redis.from_url(url, socket_connect_timeout=1, socket_timeout=2) if url else None
        self._decoder = decoder
        self._queue: asyncio.Queue[streams.DraftRecord] = asyncio.Queue(_QUEUE)

    def publish(self, session: Session, block: Block) -> None:
        """Queue a block of a session that wants fact checks."""
        if self._redis is None or self._queue.full():
            metrics.PUBLISHED.labels("dropped").inc()
        else:
            self._queue.put_nowait(record(self._decoder, session, block))

    async def run(self) -> None:
        """Send until cancelled. After a failure the queued blocks are old news and are dropped."""
        while self._redis is not None:
            entry = await self._queue.get()
            try:
                await self._redis.xadd(
                    streams.DRAFTS, streams.encode(entry), maxlen=streams.DRAFTS_CAP, approximate=True
                )
                metrics.PUBLISHED.labels("published").inc()
            except (RedisError, OSError) as error:
                log.warning("blocks cannot be published", error=str(error))
                metrics.PUBLISHED.labels("failed").inc(1 + self._queue.qsize())
                while not self._queue.empty():
                    self._queue.get_nowait()
                await asyncio.sleep(_RETRY_SECONDS)

    async def close(self) -> None:
        if self._redis is not None:
            await self._redis.aclose()


def record(decoder: Decoder, session: Session, block: Block) -> streams.DraftRecord:
    """A block's text after a tail of the committed text, with where each of its tokens ends."""
    tail = session.tokens[-_TAIL_TOKENS:]
    texts = [decoder.decode([*tail, *block.token_ids[:count]]) for count in range(len(block.token_ids) + 1)]
    whole = [_whole_length(text, len(texts[-1])) for text in texts[:-1]]
    start, *ends = itertools.accumulate([*whole, len(texts[-1])], max)
    return streams.DraftRecord(
        session_id=session.session_id,
        block_id=block.block_id,
        base_length=block.base_length,
        text=texts[-1],
        block_start=start,
        token_ends=tuple(ends),
        source=block.source,
        created_ms=time.time_ns() // 1_000_000,
    )


def _whole_length(text: str, longest: int) -> int:
    """Characters that further tokens leave as they are; an incomplete one may turn into fewer."""
    return min(len(text.rstrip("\ufffd")), longest)
