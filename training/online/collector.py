"""Takes samples off the stream and puts them on disk, while a head is trained too."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import redis
from redis.exceptions import RedisError, ResponseError

from common import logging, streams
from common.errors import InvalidRequest
from common.samples import Sample, decode_sample
from training.online import metrics
from training.online.buffer import Buffer

_AT_ONCE = 256
_BLOCK_MS = 500
_RETRY_SECONDS = 1.0

log = logging.get("collector")


def connect(url: str) -> Any:
    """Protocol 2 answers XREADGROUP with a list of streams whatever the server's version."""
    return redis.Redis.from_url(url, protocol=2, socket_connect_timeout=2, socket_timeout=5)


class Collector:
    """A consumer of the group ``streams.DISTIL_GROUP``.

    A sample is acknowledged once it is on disk, so one that was read before a crash comes again.
    """

    def __init__(self, client: Any, consumer: str, buffer: Buffer, fingerprint: str, size: int) -> None:
        """``fingerprint``, ``size``: of the target's vocabulary; samples of another are left aside."""
        self._redis = client
        self._consumer = consumer
        self._buffer = buffer
        self._fingerprint = fingerprint
        self._size = size
        self._again = True
        self._grouped = False

    def run(self, stop: threading.Event) -> None:
        """Until ``stop``; Redis may be away meanwhile."""
        while not stop.is_set():
            try:
                self.take()
            except (RedisError, OSError) as error:
                self._grouped, self._again = False, True
                log.warning("samples cannot be read", error=str(error))
                stop.wait(_RETRY_SECONDS)

    def take(self, block_ms: int = _BLOCK_MS) -> int:
        """Read once; how many entries came. Those that were read and not acknowledged come first."""
        if not self._grouped:
            join_group(self._redis, streams.SAMPLES)
            self._grouped = True
        since = "0" if self._again else ">"
        answer = self._redis.xreadgroup(
            streams.DISTIL_GROUP, self._consumer, {streams.SAMPLES: since}, _AT_ONCE, block_ms
        )
        entries = answer[0][1] if answer else []
        if not entries:
            self._again = False
            return 0
        self._buffer.add([sample for _, fields in entries if (sample := self._read(fields))])
        self._redis.xack(streams.SAMPLES, streams.DISTIL_GROUP, *(name for name, _ in entries))
        return len(entries)

    def _read(self, fields: Mapping[bytes, bytes]) -> Sample | None:
        try:
            sample = decode_sample(fields or {})
        except InvalidRequest as error:
            metrics.SAMPLES.labels("malformed").inc()
            log.warning("an entry is no sample", reason=error.message)
            return None
        foreign = sample.fingerprint != self._fingerprint
        if foreign or max(sample.token_ids) >= self._size or int(sample.likeliest.max()) >= self._size:
            metrics.SAMPLES.labels("foreign").inc()
            return None
        metrics.SAMPLES.labels("kept").inc()
        return sample


def join_group(client: Any, stream: str) -> None:
    """The group exists afterwards; a new one begins with the oldest entry that is kept."""
    try:
        client.xgroup_create(stream, streams.DISTIL_GROUP, id="0", mkstream=True)
    except ResponseError as error:
        if not str(error).startswith("BUSYGROUP"):
            raise
