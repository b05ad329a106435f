"""Sampled answers on their way to Redis, from the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import redis.asyncio as redis

from common import streams
from common.samples import Sample, decode_sample
from common.types import SamplingParams, Stopping, Terms
from tests.support.scripted import GREEDY, Bench, CharTokenizer, ask, collect, half_wrong, make_engine
from tests.support.scripted.target import EOS, Script
from tests.support.valkey import Valkey, free_port, require_valkey
from verify_service import metrics
from verify_service.distil.draws import Sampling
from verify_service.distil.publisher import SamplePublisher

TOKENIZER = CharTokenizer()
PROMPT = TOKENIZER.encode("count with me: ")
ANSWER = [*TOKENIZER.encode("one, two, three, four, five, six."), EOS]
SCRIPT = Script(len(TOKENIZER))
SCRIPT.add(PROMPT, ANSWER)
SECONDS = 10.0


@pytest.fixture
async def valkey() -> AsyncGenerator[Valkey, None]:
    require_valkey()
    async with Valkey() as server:
        yield server


def sampling_bench(url: str, chosen: Sampling = Sampling(1.0)) -> tuple[Bench, SamplePublisher]:  # noqa: B008
    bench, publisher = make_engine(SCRIPT, {"draft": half_wrong(SCRIPT)}), SamplePublisher(url, "print")
    bench.engine._samples = publisher
    bench.engine._admission = replace(bench.engine._admission, sampling=chosen)
    return bench, publisher


@asynccontextmanager
async def running(publisher: SamplePublisher) -> AsyncGenerator[None, None]:
    task = asyncio.create_task(publisher.run())
    try:
        async with asyncio.timeout(SECONDS):
            yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await publisher.close()


async def answered(bench: Bench, salt: str = "", sampling: SamplingParams = GREEDY) -> list[int]:
    request = ask(PROMPT, "draft", sampling=sampling, stopping=Stopping(max_tokens=60))
    request = replace(request, request_id="req-8d1f", terms=Terms("chat"), cache_salt=salt)
    return list((await collect(bench.engine, request)).token_ids)


async def entries(valkey: Valkey, count: int) -> list[dict[bytes, bytes]]:
    connected: Any = redis.Redis.from_url(valkey.url, protocol=2)
    async with connected as client:
        while len(found := await client.xrange(streams.SAMPLES)) < count:
            await asyncio.sleep(0.01)
    return [fields for _, fields in found]


def fates() -> dict[str, float]:
    return {fate: metrics.SAMPLES.labels(fate)._value.get() for fate in ("sent", "dropped", "failed")}


async def test_a_sampled_answer_arrives_with_what_the_target_found_likeliest(valkey: Valkey) -> None:
    bench, publisher = sampling_bench(valkey.url)
    async with running(publisher):
        tokens = await answered(bench)
        (fields,) = await entries(valkey, 1)
    sample: Sample = decode_sample(fields)
    assert tokens == ANSWER
    assert sample.token_ids == (*PROMPT, *ANSWER)
    assert sample.prompt_length == len(PROMPT)
    assert (sample.prompt_class, sample.fingerprint, sample.greedy) == ("chat", "print", True)
    assert sample.likeliest[:, 0].tolist() == ANSWER
    assert (sample.probabilities[:, 0] > 0.5).all()


async def test_nothing_in_it_says_whose_answer_it_was(valkey: Valkey) -> None:
    bench, publisher = sampling_bench(valkey.url, Sampling(1.0, salted=True))
    async with running(publisher):
        await answered(bench, salt="tenant-77c2")
        (fields,) = await entries(valkey, 1)
    assert set(fields) == {b"payload"}
    written = fields[b"payload"].decode()
    assert "req-8d1f" not in written
    assert "tenant-77c2" not in written
    assert "count with me" not in written


async def test_a_tenants_answers_stay_here_by_default(valkey: Valkey) -> None:
    bench, publisher = sampling_bench(valkey.url)
    async with running(publisher):
        await answered(bench, salt="tenant-77c2")
        await answered(bench)
        assert len(await entries(valkey, 1)) == 1


async def test_by_default_nothing_is_sampled(valkey: Valkey) -> None:
    bench, publisher = sampling_bench(valkey.url, Sampling())
    before = fates()
    async with running(publisher):
        await answered(bench)
        await asyncio.sleep(0.05)
    assert fates() == before


async def test_a_cancelled_answer_is_not_published() -> None:
    bench, publisher = sampling_bench(f"redis://127.0.0.1:{free_port()}/0")
    stream = bench.engine.generate(ask(PROMPT, "draft", stopping=Stopping(max_tokens=60)))
    work = asyncio.create_task(bench.engine.run())
    await anext(stream)
    await anext(stream)
    await stream.aclose()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert publisher._queue.empty()
    await publisher.close()


async def test_what_does_not_fit_the_queue_is_dropped_and_counted() -> None:
    bench, publisher = sampling_bench(f"redis://127.0.0.1:{free_port()}/0")
    before = fates()
    await answered(bench)
    sample = publisher._queue.get_nowait()
    for _ in range(256):
        publisher._queue.put_nowait(sample)
    await answered(bench)
    assert fates()["dropped"] == before["dropped"] + 1
    await publisher.close()


async def test_a_redis_that_is_away_costs_samples_and_nothing_else() -> None:
    bench, publisher = sampling_bench(f"redis://127.0.0.1:{free_port()}/0")
    before = fates()
    async with running(publisher):
        assert await answered(bench) == ANSWER
        while fates()["failed"] == before["failed"]:
            await asyncio.sleep(0.01)
