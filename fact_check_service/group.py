"""The consumer group on the stream of drafts, as one of its members sees it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from common import streams
from common.streams import DraftRecord, TagRecord
from fact_check_service import metrics, scripts
from fact_check_service.config import Config

MAX_DELIVERIES = 5
DEAD = f"{streams.DRAFTS}:dead"
DEAD_CAP = 1_000

_MARKER = "tandem:verdict:"
_START = b"0-0"

Fields = dict[bytes, bytes]
Entry = tuple[bytes, Fields]


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict for an entry, wanted until ``deadline_ms`` of unix time."""

    entry_id: bytes
    tag: TagRecord
    deadline_ms: int


def marker(record: DraftRecord | TagRecord) -> str:
    """The key that says that the verdict on a block is stored."""
    block = json.dumps([record.session_id, record.block_id, record.base_length])
    return _MARKER + hashlib.blake2b(block.encode(), digest_size=16).hexdigest()


class Group:
    """Reads, takes over and settles entries; counts what gets lost on the way."""

    def __init__(self, redis: Redis, config: Config) -> None:
        self._redis = redis
        self._config = config
        self._exists = False
        self._cursor = _START
        self._read = redis.register_script(scripts.READ)
        self._take_over = redis.register_script(scripts.TAKE_OVER)
        self._settle = redis.register_script(scripts.SETTLE)

    async def ensure(self) -> None:
        """Create the group from the first entry, not from now on: what was drafted while no group existed
        is still wanted, and the cap of the stream bounds it."""
        if self._exists:
            return
        try:
            await self._redis.xgroup_create(streams.DRAFTS, streams.FACT_CHECK_GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
        self._exists = True

    def lost(self, error: Exception) -> bool:
        """Whether an error says that the group went with its stream: a flush, or a restart without
        persistence. It is then created again."""
        gone = self._exists and isinstance(error, ResponseError) and str(error).startswith("NOGROUP")
        self._exists = self._exists and not gone
        return gone

    async def read(self) -> list[Entry]:
        """New entries; none when there are none within the time of a read."""
        entries, newest = await self._deliver()
        if entries:
            return entries
        wait_ms = self._config.read_block_ms
        appended = await self._redis.xread({streams.DRAFTS: newest}, count=1, block=wait_ms)
        return (await self._deliver())[0] if appended else []

    async def take_over(self) -> Sequence[bytes]:
        """The next entries that others left, now pending at this consumer; see ``more``."""
        config = self._config
        keys = (streams.DRAFTS, DEAD)
        whose = (streams.FACT_CHECK_GROUP, config.consumer, config.claim_idle_ms)
        arguments = (*whose, self._cursor, config.batch_size, MAX_DELIVERIES, DEAD_CAP)
        answer = cast(list[Any], await self._take_over(keys, arguments))
        self._cursor, taken, buried, removed = answer
        metrics.CLAIMED.inc(len(taken))
        metrics.DEAD_LETTERS.inc(len(buried))
        metrics.TRIMMED.labels("pending").inc(removed)
        return cast(list[bytes], taken)

    @property
    def more(self) -> bool:
        """Whether ``take_over`` has not yet been through all that is pending."""
        return self._cursor != _START

    async def deliver_again(self, entry_id: bytes) -> list[Entry]:
        """One entry taken over, which counts as a delivery; nothing when it is gone or settled."""
        group, consumer = streams.FACT_CHECK_GROUP, self._config.consumer
        answer = await self._redis.xclaim(streams.DRAFTS, group, consumer, 0, [entry_id])
        return cast(list[Entry], answer)

    async def settle(self, answers: Sequence[Answer], others: Sequence[bytes]) -> None:
        """Store the verdicts and acknowledge their entries and the others, all at once."""
        keys = [streams.DRAFTS, streams.TAGS, *(marker(answer.tag) for answer in answers)]
        arguments: list[Any] = [streams.FACT_CHECK_GROUP, streams.TAGS_CAP]
        for answer in answers:
            ((name, value),) = streams.encode(answer.tag).items()
            arguments += (answer.entry_id, answer.deadline_ms, name, value)
        late, known = cast(list[int], await self._settle(keys, [*arguments, *others]))
        metrics.EXPIRED.inc(late)
        metrics.DUPLICATES.inc(known)

    async def measure_lag(self) -> None:
        """A group that the cap has overtaken lags by no more than what is left of the stream."""
        length = await self._redis.xlen(streams.DRAFTS)
        for group in await self._redis.xinfo_groups(streams.DRAFTS):
            if group["name"] == streams.FACT_CHECK_GROUP.encode():
                lag = group.get("lag")  # nil after deletions
                metrics.LAG.set(math.nan if lag is None else min(lag, length) + group["pending"])

    async def leave(self) -> None:
        """Take the consumer's name off the group, unless entries are pending under it: they would be lost."""
        group, consumer = streams.FACT_CHECK_GROUP, self._config.consumer
        with suppress(RedisError, OSError):
            if not await self._redis.xpending_range(
                streams.DRAFTS, group, "-", "+", 1, consumername=consumer
            ):
                await self._redis.xgroup_delconsumer(streams.DRAFTS, group, consumer)

    async def _deliver(self) -> tuple[list[Entry], bytes]:
        """New entries, and the newest id of the stream."""
        arguments = (streams.FACT_CHECK_GROUP, self._config.consumer, self._config.batch_size)
        answer = cast(list[Any], await self._read((streams.DRAFTS,), arguments))
        entries, unread, newest = answer
        metrics.TRIMMED.labels("unread").inc(unread)
        return [(entry_id, _fields(flat)) for entry_id, flat in entries], newest


def _fields(flat: Sequence[bytes]) -> Fields:
    return dict(zip(flat[::2], flat[1::2], strict=True))
