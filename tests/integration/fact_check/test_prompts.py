"""What a draft leaves of a session in Redis, and what the worker finds there."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import cast

from redis.asyncio import Redis

from common import streams
from common.draft_types import Block
from common.model.tokenizer import Tokenizer
from common.streams import LAST_BLOCK, DraftRecord, decode_draft
from draft_service.publisher import Publisher
from fact_check_service.checks.checker import Checker
from fact_check_service.checks.prompt import PromptCheck
from fact_check_service.prompts import Prompts
from tests.integration.fact_check.conftest import StartWorker
from tests.integration.fact_check.support import append, tags, until
from tests.support.models import tiny_tokenizer
from tests.support.valkey import Valkey
from tests.unit.draft.sessions import opened

TOKENIZER = Tokenizer(tiny_tokenizer())


async def test_the_prompt_is_left_once_with_the_first_block_and_the_rest_with_the_last(
    valkey: Valkey, redis: Redis
) -> None:
    session = opened("a", TOKENIZER.encode("how tall? "), prompt_length=10, publish=True)
    publisher = Publisher(valkey.url, TOKENIZER)
    work = asyncio.create_task(publisher.run())
    publisher.publish(session, Block(5, 10, tuple(TOKENIZER.encode("it"))))
    session.tokens += TOKENIZER.encode("it is 9m")
    publisher.publish_last(session)

    async def has_both() -> bool:
        return await redis.xlen(streams.DRAFTS) == 2

    await until(has_both)
    entries = cast(list[tuple[bytes, dict[bytes, bytes]]], await redis.xrange(streams.DRAFTS))
    records = [decode_draft(fields) for _, fields in entries]
    assert [(record.block_id, record.text[record.since :]) for record in records] == [
        (5, "it"),
        (LAST_BLOCK, " is 9m"),
    ]
    assert await Prompts(redis).of(["a", "b"]) == {"a": "how tall? ", "b": ""}
    assert 0 < await redis.ttl(streams.prompt_key("a")) <= streams.PROMPT_SECONDS
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work
    await publisher.close()


async def test_a_long_prompt_is_kept_from_its_end(valkey: Valkey, redis: Redis) -> None:
    prompt = "a" * 10 + "b" * streams.PROMPT_CHARACTERS
    await redis.set(streams.prompt_key("s"), prompt[-streams.PROMPT_CHARACTERS :])
    prompts = Prompts(redis)
    assert (await prompts.of(["s"]))["s"] == "b" * streams.PROMPT_CHARACTERS
    await redis.delete(streams.prompt_key("s"))
    assert (await prompts.of(["s"]))["s"], "it is remembered"


async def test_prompts_that_are_kept_are_bounded(valkey: Valkey, redis: Redis) -> None:
    prompts = Prompts(redis)
    for number in range(300):
        await redis.set(streams.prompt_key(str(number)), f"prompt {number}")
        assert await prompts.of([str(number)]) == {str(number): f"prompt {number}"}
    await redis.flushall()
    kept = await prompts.of(map(str, range(300)))
    assert sum(bool(text) for text in kept.values()) == 256


SOURCE = "The central bank raised its policy rate by 25 basis points at its June meeting."


async def test_a_claim_is_compared_with_the_prompt_that_its_session_left(
    valkey: Valkey, redis: Redis, start_worker: StartWorker
) -> None:
    await redis.set(streams.prompt_key("told"), f"Sum this up: {SOURCE}")
    text = "At its June meeting the central bank raised its policy rate by 50BP."
    ends = tuple(range(1, len(text) + 1))
    now = time.time_ns() // 1_000_000
    await append(
        redis, [DraftRecord(session, 7, 3, text, 0, ends, "test", now) for session in ("told", "untold")]
    )
    start_worker("one", checker=Checker([PromptCheck()], 5.0))

    async def both() -> bool:
        return len(await tags(redis)) == 2

    await until(both)
    flags = {tag.session_id: tag.flags for tag in await tags(redis)}
    assert flags["untold"] == ()
    (flag,) = flags["told"]
    assert (flag.text, flag.rule) == ("50BP", "prompt")
    assert "25 basis points" in flag.evidence
