"""Appends drafted blocks with their text to the fact-check stream. Never holds up drafting."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import redis.asyncio as redis
from redis.exceptions import RedisError

from common import logging, streams
from common.draft_types import Block
from draft_service import metrics
from draft_service.session import Session
from draft_service.sources.kv import common_prefix

_QUEUE = 1000
_TAIL_TOKENS = 64
_MOST_TAIL_TOKENS = 256
_CONTEXT_TOKENS = 32  # before what is new
_LONGEST_CLAIM = 8  # tokens of a claim that was begun before what is new
_RETRY_SECONDS = 0.5

log = logging.get("publisher")


class Decoder(Protocol):
    def decode(self, token_ids: Sequence[int]) -> str: ...


@dataclass(frozen=True, slots=True)
class _Entry:
    """``prompt``: the session's, with its first record."""

    record: streams.DraftRecord
    prompt: Sequence[int] | None


class Publisher:
    """A bounded queue in front of Redis: what does not fit, or cannot be sent, is dropped and counted."""

    def __init__(self, url: str, decoder: Decoder) -> None:
        self._redis = redis.Redis.from_url(url, socket_connect_timeout=1, socket_timeout=2) if url else None
        self._decoder = decoder
        self._queue: asyncio.Queue[_Entry] = asyncio.Queue(_QUEUE)

    def publish(self, session: Session, block: Block) -> None:
        """Queue a block of a session that wants fact checks; with the first one goes its prompt."""
        if self._redis is None or self._queue.full():
            metrics.PUBLISHED.labels("dropped").inc()
            return
        prompt = None if session.published else session.tokens[: session.prompt_length]
        self._queue.put_nowait(_Entry(record(self._decoder, session, block), prompt))

    def publish_last(self, session: Session) -> None:
        """Queue what no record holds yet of an answer that is over."""
        self.publish(session, Block(streams.LAST_BLOCK, len(session.tokens), ()))

    async def run(self) -> None:
        """Send until cancelled. After a failure the queued blocks are old news and are dropped."""
        while self._redis is not None:
            entry = await self._queue.get()
            try:
                await self._send(self._redis, entry)
                metrics.PUBLISHED.labels("published").inc()
            except (RedisError, OSError) as error:
                log.warning("blocks cannot be published", error=str(error))
                metrics.PUBLISHED.labels("failed").inc(1 + self._queue.qsize())
                while not self._queue.empty():
                    self._queue.get_nowait()
                await asyncio.sleep(_RETRY_SECONDS)

    async def _send(self, client: redis.Redis, entry: _Entry) -> None:
        if entry.prompt is not None:
            text = await asyncio.to_thread(self._decoder.decode, entry.prompt)
            key = streams.prompt_key(entry.record.session_id)
            await client.set(key, text[-streams.PROMPT_CHARACTERS :], ex=streams.PROMPT_SECONDS)
        fields = streams.encode(entry.record)
        await client.xadd(streams.DRAFTS, fields, maxlen=streams.DRAFTS_CAP, approximate=True)

    async def close(self) -> None:
        if self._redis is not None:
            await self._redis.aclose()


def record(decoder: Decoder, session: Session, block: Block) -> streams.DraftRecord:
    """A block's text after a tail of the committed text, with where their tokens begin and end."""
    since = _first_unpublished(session)
    unpublished = len(session.tokens) - since
    tail = session.tokens[-min(_MOST_TAIL_TOKENS, max(_TAIL_TOKENS, unpublished + _CONTEXT_TOKENS)) :]
    located = min(len(tail), unpublished + _LONGEST_CLAIM)
    tokens, first = [*tail, *block.token_ids], len(tail) - located
    texts = [decoder.decode(tokens[:count]) for count in range(first, len(tokens) + 1)]
    whole = [_whole_length(text, len(texts[-1])) for text in texts[:-1]]
    bounds = list(itertools.accumulate([*whole, len(texts[-1])], max))
    session.published = (len(session.tokens), block.token_ids)
    return streams.DraftRecord(
        session_id=session.session_id,
        block_id=block.block_id,
        base_length=block.base_length,
        text=texts[-1],
        block_start=bounds[located],
        token_ends=tuple(bounds[located + 1 :]),
        source=block.source,
        created_ms=time.time_ns() // 1_000_000,
        tail_starts=tuple(bounds[:located]),
        since=bounds[max(0, located - unpublished)],
    )


def _first_unpublished(session: Session) -> int:
    """The first token of the answer that no record held: the target decided otherwise there, or went on."""
    base, guesses = session.published or (0, ())
    return max(session.prompt_length, base + common_prefix(session.tokens[base:], guesses))


def _whole_length(text: str, longest: int) -> int:
    """Characters that further tokens leave as they are; an incomplete one may turn into fewer."""
    return min(len(text.rstrip("\ufffd")), longest)
