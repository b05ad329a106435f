"""The consumer loop: drafted blocks in, one verdict per block out."""

from __future__ import annotations

import asyncio
import math
import random
import time
from contextlib import suppress
from typing import cast

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.typing import EncodableT, FieldT

from common import logging, streams
from common.errors import InvalidRequest
from common.streams import DraftRecord, TagRecord
from fact_check_service import metrics, tagging
from fact_check_service.checks.base import Context, Judge
from fact_check_service.claims import Verdict
from fact_check_service.config import Config

BACKOFF_SECONDS = 0.05
MAX_BACKOFF_SECONDS = 2.0
CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 5.0

Fields = dict[bytes, bytes]
Entry = tuple[bytes, Fields]

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

    An entry is acknowledged in the transaction that appends its tag, so a worker that dies leaves its
    entries pending, and another takes them over. A block may then be tagged twice, which is harmless: a tag
    is keyed by its session and block, and the same text gets the same verdict.
    """

    def __init__(self, redis: Redis, checker: Judge, config: Config) -> None:
        self._redis = redis
        self._checker = checker
        self._config = config
        self._has_group = False
        self._next_round = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set; the batch in hand is finished. No failure of Redis ends it."""
        failures = 0
        while not stop.is_set():
            try:
                await self._step()
                failures = 0
            except (RedisError, OSError) as error:
                # The stream is gone with its group after a flush, or a restart without persistence.
                if _lacks_group(error) and self._has_group:
                    self._has_group = False
                    log.warning("the consumer group is gone and will be created again")
                    continue
                failures += 1
                delay = _backoff_seconds(failures)
                log.warning("redis failed", error=f"{type(error).__name__}: {error}", retry_seconds=delay)
                await _pause(stop, delay)
        await self._leave()

    async def _step(self) -> None:
        await self._ensure_group()
        entries = await self._look_around() if time.monotonic() >= self._next_round else []
        await self._answer(entries or await self._read())

    async def _ensure_group(self) -> None:
        """Create the group from the first entry, not from now on: what was drafted while no group existed
        is still wanted, and the cap of the stream bounds it."""
        if self._has_group:
            return
        try:
            await self._redis.xgroup_create(streams.DRAFTS, streams.FACT_CHECK_GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
        self._has_group = True

    async def _look_around(self) -> list[Entry]:
        """Take over what others left and measure the lag; at once again while there may be more."""
        entries = await self._take_over()
        await self._measure_lag()
        if len(entries) < self._config.batch_size:
            self._next_round = time.monotonic() + self._config.claim_every_seconds
        return entries

    async def _measure_lag(self) -> None:
        for group in await self._redis.xinfo_groups(streams.DRAFTS):
            if group["name"] == streams.FACT_CHECK_GROUP.encode():
                lag = group.get("lag")  # nil after deletions, absent on old servers
                metrics.LAG.set(math.nan if lag is None else lag + group["pending"])

    async def _take_over(self) -> list[Entry]:
        config = self._config
        answer = await self._redis.xautoclaim(
            streams.DRAFTS,
            streams.FACT_CHECK_GROUP,
            config.consumer,
            min_idle_time=config.claim_idle_ms,
            count=config.batch_size,
        )
        entries = cast(list[Entry], answer[1])
        metrics.CLAIMED.inc(len(entries))
        return entries

    async def _read(self) -> list[Entry]:
        config = self._config
        answer = await self._redis.xreadgroup(
            streams.FACT_CHECK_GROUP,
            config.consumer,
            {streams.DRAFTS: ">"},
            count=config.batch_size,
            block=config.read_block_ms,
        )
        return cast(list[tuple[bytes, list[Entry]]], answer)[0][1] if answer else []

    async def _answer(self, entries: list[Entry]) -> None:
        """Append the tags and acknowledge the entries, both or neither."""
        if not entries:
            return
        tags = [await self._tag(*entry) for entry in entries]
        async with self._redis.pipeline(transaction=True) as pipe:
            for tag in filter(None, tags):
                pipe.xadd(
                    streams.TAGS,
                    cast(dict[FieldT, EncodableT], tag),
                    maxlen=streams.TAGS_CAP,
                    approximate=True,
                )
            pipe.xack(streams.DRAFTS, streams.FACT_CHECK_GROUP, *(entry_id for entry_id, _ in entries))
            await pipe.execute()

    async def _tag(self, entry_id: bytes, fields: Fields | None) -> Fields | None:
        """The tag entry for a draft entry; None for one that cannot be read or checked.

        This is the outermost place that knows a single entry. A fault that escaped from here would keep its
        batch pending, to be taken over and to fail again for ever.
        """
        try:
            record = streams.decode_draft(fields or {})
            tagging.require_sound(record)
            return streams.encode(await self._verdict(record))
        except InvalidRequest as error:
            log.warning("malformed entry", entry_id=entry_id.decode(), error=error.message)
        except Exception:
            log.exception("entry could not be checked", entry_id=entry_id.decode())
        metrics.MALFORMED.inc()
        return None

    async def _verdict(self, record: DraftRecord) -> TagRecord:
        with metrics.SECONDS.time():
            findings = await self._checker.check(Context(record.text, since=max(0, record.since - 1)))
            tag = tagging.tag(record, findings)
        metrics.BLOCKS.inc()
        for finding in findings:
            if finding.verdict is Verdict.CONTRADICTED:
                metrics.FLAGS.labels(finding.check).inc()
        return tag

    async def _leave(self) -> None:
        """Take the consumer's name off the group, unless entries are pending under it: they would be lost."""
        group, consumer = streams.FACT_CHECK_GROUP, self._config.consumer
        with suppress(RedisError, OSError):
            if not await self._redis.xpending_range(
                streams.DRAFTS, group, "-", "+", 1, consumername=consumer
            ):
                await self._redis.xgroup_delconsumer(streams.DRAFTS, group, consumer)


def _lacks_group(error: Exception) -> bool:
    return isinstance(error, ResponseError) and str(error).startswith("NOGROUP")


def _backoff_seconds(failures: int) -> float:
    """Doubling up to the maximum, with jitter so that workers do not come back all at once."""
    ceiling: float = min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2 ** min(failures - 1, 10))
    return random.uniform(ceiling / 2, ceiling)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
