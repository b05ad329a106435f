"""Appends sampled answers to the stream of samples. Never holds up a step."""

from __future__ import annotations

import asyncio

import redis.asyncio as redis
from redis.exceptions import RedisError

from common import logging, streams
from common.samples import Sample, encode_sample
from verify_service import metrics
from verify_service.distil.draws import greedy
from verify_service.sequence import Sequence

_QUEUE = 256
_RETRY_SECONDS = 0.5

log = logging.get("samples")


class SamplePublisher:
    """A bounded queue in front of Redis: what does not fit, or cannot be sent, is dropped and counted."""

    def __init__(self, url: str, fingerprint: str) -> None:
        """
        Args:
            url: empty: nothing is published.
            fingerprint: of the target's vocabulary.
        """
        self._redis = redis.Redis.from_url(url, socket_connect_timeout=1, socket_timeout=2) if url else None
        self._fingerprint = fingerprint
        self._queue: asyncio.Queue[Sample] = asyncio.Queue(_QUEUE)

    def publish(self, sequence: Sequence) -> None:
        """A whole answer, if it was sampled."""
        if self._redis is None or sequence.sample is None:
            return
        if self._queue.full():
            metrics.SAMPLES.labels("dropped").inc()
        elif sample := sample_of(sequence, self._fingerprint):
            self._queue.put_nowait(sample)

    async def run(self) -> None:
        """Send until cancelled. What cannot be sent is lost, and counted."""
        while self._redis is not None:
            sample = await self._queue.get()
            try:
                fields = await asyncio.to_thread(encode_sample, sample)
                await self._redis.xadd(streams.SAMPLES, fields, maxlen=streams.SAMPLES_CAP, approximate=True)
                metrics.SAMPLES.labels("sent").inc()
            except (RedisError, OSError) as error:
                log.warning("samples cannot be sent", error=str(error))
                metrics.SAMPLES.labels("failed").inc()
                await asyncio.sleep(_RETRY_SECONDS)

    async def close(self) -> None:
        if self._redis is not None:
            await self._redis.aclose()


def sample_of(sequence: Sequence, fingerprint: str) -> Sample | None:
    """Tokens and what the target found likeliest, and nothing that says whose they are; None: no answer."""
    likeliest = sequence.sample.whole if sequence.sample else None
    if likeliest is None:
        return None
    end = sequence.prompt_length + len(likeliest.token_ids)
    return Sample(
        prompt_class=sequence.request.terms.prompt_class,
        fingerprint=fingerprint,
        greedy=greedy(sequence.request, sequence.allowed is not None),
        token_ids=tuple(sequence.tokens[:end]),
        prompt_length=sequence.prompt_length,
        likeliest=likeliest.token_ids,
        probabilities=likeliest.probabilities,
    )
