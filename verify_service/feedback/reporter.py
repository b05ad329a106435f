"""Appends a record of each answer to the feedback stream. Never holds up a step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import redis.asyncio as redis
from redis.exceptions import RedisError

from common import logging, streams
from common.errors import ConfigError
from common.feedback import FeedbackRecord
from verify_service import metrics
from verify_service.feedback.comparison import compared
from verify_service.feedback.notes import Notes
from verify_service.sequence import Sequence

_QUEUE = 1024
_RETRY_SECONDS = 0.5

Decode = Callable[[list[int]], str]
Similarity = Callable[[str, str], float]

log = logging.get("feedback")


@dataclass(frozen=True, slots=True)
class _Entry:
    """``texts``: drafted and final, to be compared; None: not sampled, or nothing was drafted."""

    record: FeedbackRecord
    texts: tuple[str, str] | None


class Reporter:
    """A bounded queue in front of Redis: what does not fit, or cannot be sent, is dropped and counted."""

    def __init__(self, url: str, decode: Decode, load_similarity: Callable[[], Similarity]) -> None:
        """
        Args:
            url: empty: nobody is told.
            load_similarity: gives what compares two texts; raises ConfigError where it is missing.
        """
        self._redis = redis.Redis.from_url(url, socket_connect_timeout=1, socket_timeout=2) if url else None
        self._decode = decode
        self._load_similarity = load_similarity
        self._similarity: Similarity | None = None
        self._comparable = True
        self._queue: asyncio.Queue[_Entry] = asyncio.Queue(_QUEUE)

    def report(self, sequence: Sequence, *, finished: bool) -> None:
        """An answer is over, at its end or before."""
        if self._redis is None:
            return
        if self._queue.full():
            metrics.FEEDBACK.labels("dropped").inc()
            return
        self._queue.put_nowait(_Entry(record_of(sequence, finished=finished), self._texts(sequence)))

    async def run(self) -> None:
        """Send until cancelled. What cannot be sent is lost, and counted."""
        while self._redis is not None:
            entry = await self._queue.get()
            record = await self._compared(entry)
            try:
                await self._send(self._redis, record)
                metrics.FEEDBACK.labels("sent").inc()
            except (RedisError, OSError) as error:
                log.warning("feedback cannot be sent", error=str(error))
                metrics.FEEDBACK.labels("failed").inc()
                await asyncio.sleep(_RETRY_SECONDS)

    async def _send(self, client: redis.Redis, record: FeedbackRecord) -> None:
        fields = streams.encode(record)
        await client.xadd(streams.FEEDBACK, fields, maxlen=streams.FEEDBACK_CAP, approximate=True)

    async def close(self) -> None:
        if self._redis is not None:
            await self._redis.aclose()

    def _texts(self, sequence: Sequence) -> tuple[str, str] | None:
        wrote, said = compared(sequence.notes.guessed, sequence.tokens)
        return (self._decode(wrote), self._decode(said)) if wrote else None

    async def _compared(self, entry: _Entry) -> FeedbackRecord:
        """Off the event loop, one at a time; where nothing can compare, that is said once."""
        if entry.texts is None or not self._comparable:
            return entry.record
        try:
            if self._similarity is None:
                self._similarity = await asyncio.to_thread(self._load_similarity)
            consistency = await asyncio.to_thread(self._similarity, *entry.texts)
        except ConfigError as error:
            self._comparable = False
            log.warning("drafts are not compared with answers", error=error.message)
            return entry.record
        return replace(entry.record, consistency=consistency)


def record_of(sequence: Sequence, *, finished: bool) -> FeedbackRecord:
    notes: Notes = sequence.notes
    return FeedbackRecord(
        prompt_class=sequence.request.terms.prompt_class,
        created_ms=time.time_ns() // 1_000_000,
        drafts=tuple(draft.record() for draft in notes.drafts),
        shadow=sequence.shadow,
        lossy=sequence.policy is not None,
        plain_tokens=notes.plain.tokens,
        plain_seconds=notes.plain.seconds,
        speculated_tokens=notes.speculated.tokens,
        speculated_seconds=notes.speculated.seconds,
        first_token_seconds=notes.first_token_seconds,
        total_seconds=notes.total_seconds,
        log_probability=notes.log_probability,
        scored_tokens=notes.scored_tokens,
        finished=finished,
    )
