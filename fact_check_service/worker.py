"""The consumer loop: drafted blocks in, one verdict per block out."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import suppress

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from common import logging, streams
from common.errors import InvalidRequest
from common.streams import DraftRecord, TagRecord
from fact_check_service import metrics, tagging
from fact_check_service.checks.base import Context, Judge
from fact_check_service.claims import Verdict
from fact_check_service.config import Config
from fact_check_service.group import Answer, Entry, Fields, Group
from fact_check_service.prompts import Prompts

BACKOFF_SECONDS = 0.05
MAX_BACKOFF_SECONDS = 2.0
CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 5.0

log = logging.get("worker")


def connect(config: Config) -> Redis:
    """A client that leaves retrying to the worker, which also knows what to do with the answer.

    RESP2 has one form of every answer that the worker reads, on any server.
    """
    return Redis.from_url(
        config.redis_url,
        protocol=2,
        retry=Retry(NoBackoff(), 0),
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=config.read_block_ms / 1000 + ANSWER_SECONDS,
    )


class Worker:
    """One member of the consumer group.

    An entry is acknowledged in the step that stores its verdict, so a worker that dies leaves its entries
    pending, and another takes them over. A block that is thereby checked twice keeps its first verdict.
    """

    def __init__(self, redis: Redis, checker: Judge, config: Config) -> None:
        self._group = Group(redis, config)
        self._prompts = Prompts(redis)
        self._checker = checker
        self._config = config
        self._next_round = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set; the batch in hand is finished. No failure of Redis ends it."""
        failures = 0
        while not stop.is_set():
            try:
                await self._step(stop)
                failures = 0
            except (RedisError, OSError) as error:
                failures += 1
                if self._group.lost(error) and failures == 1:  # at once, unless that does not help
                    log.warning("the consumer group is gone and will be created again")
                    continue
                delay = _backoff_seconds(failures)
                log.warning("redis failed", error=f"{type(error).__name__}: {error}", retry_seconds=delay)
                await _pause(stop, delay)
        await self._group.leave()

    async def _step(self, stop: asyncio.Event) -> None:
        await self._group.ensure()
        if time.monotonic() >= self._next_round:
            await self._look_around(stop)
        else:
            await self._answer(await self._group.read())

    async def _look_around(self, stop: asyncio.Event) -> None:
        """Take over what others left, and measure the lag; at once again while there may be more.

        An entry may be what its worker died of. Each is delivered and settled alone, so that none goes to
        the dead letters for another.
        """
        taken = await self._group.take_over()
        await self._group.measure_lag()
        for entry_id in taken:
            if stop.is_set():
                return
            await self._answer(await self._group.deliver_again(entry_id))
        if not self._group.more:
            self._next_round = time.monotonic() + self._config.claim_every_seconds

    async def _answer(self, entries: Sequence[Entry]) -> None:
        """Check the blocks side by side, then settle them together."""
        if not entries:
            return
        records = [self._read(*entry) for entry in entries]
        prompts = await self._prompts.of(record.session_id for record in records if record)
        answers = await asyncio.gather(
            *(
                self._checked(entry_id, record, prompts[record.session_id])
                for (entry_id, _), record in zip(entries, records, strict=True)
                if record
            )
        )
        settled = [answer for answer in answers if answer]
        done = {answer.entry_id for answer in settled}
        others = [entry_id for entry_id, _ in entries if entry_id not in done]
        await self._group.settle(settled, others)

    def _read(self, entry_id: bytes, fields: Fields) -> DraftRecord | None:
        """None for an entry that is too old, or cannot be read."""
        try:
            record = streams.decode_draft(fields)
            tagging.require_sound(record)
        except InvalidRequest as error:
            log.warning("malformed entry", entry_id=entry_id.decode(), error=error.message)
            metrics.MALFORMED.inc()
            return None
        if _now_ms() > self._deadline_ms(record):
            metrics.EXPIRED.inc()
            return None
        return record

    def _deadline_ms(self, record: DraftRecord) -> int:
        """Until when the verdict is of use to anybody; a clock that runs ahead gives no more time."""
        return min(record.created_ms, _now_ms()) + self._config.max_age_ms

    async def _checked(self, entry_id: bytes, record: DraftRecord, prompt: str) -> Answer | None:
        """None for an entry that cannot be checked.

        This is the outermost place that knows a single entry. A fault that escaped from here would keep its
        batch pending, to be taken over and to fail again.
        """
        try:
            return Answer(entry_id, await self._verdict(record, prompt), self._deadline_ms(record))
        except Exception:
            log.exception("entry could not be checked", entry_id=entry_id.decode())
            metrics.MALFORMED.inc()
            return None

    async def _verdict(self, record: DraftRecord, prompt: str) -> TagRecord:
        # A sentence that ended where the last record did is looked at again: its last claim was not whole.
        context = Context(record.text, max(0, record.since - 1), prompt)
        with metrics.SECONDS.time():
            findings = await self._checker.check(context)
            tag = tagging.tag(record, findings)
        metrics.BLOCKS.inc()
        for finding in findings:
            if finding.verdict is Verdict.CONTRADICTED:
                metrics.FLAGS.labels(finding.check).inc()
        return tag


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _backoff_seconds(failures: int) -> float:
    """Doubling up to the maximum, with jitter so that workers do not come back all at once."""
    ceiling: float = min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2 ** min(failures - 1, 10))
    return random.uniform(ceiling / 2, ceiling)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
