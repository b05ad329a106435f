"""The manual switch, for answers under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest
import redis.asyncio as redis

from common import switches
from common.switches import State
from common.types import Stopping, Terms
from tests.support.scripted import CharTokenizer, ask, make_engine, perfect, running
from tests.support.scripted.target import EOS, Script
from tests.support.valkey import Valkey, require_valkey
from verify_service.switches import Switched

TOKENIZER = CharTokenizer()
PROMPT = TOKENIZER.encode("count with me: ")
SCRIPT = Script(len(TOKENIZER))
SCRIPT.add(PROMPT, [*TOKENIZER.encode("one, two, three, four, five, six, seven, eight."), EOS])


async def drafted_after(states: dict[int, State], shadow: bool = False) -> list[bool]:
    """For each step whether guesses stood in it; the switch is turned after so many steps."""
    state = State.ON

    def switch(prompt_class: str) -> State:
        return state if prompt_class == "chat" else State.OFF

    bench = make_engine(SCRIPT, {"draft": perfect(SCRIPT)}, switch=switch)
    request = replace(
        ask(PROMPT, "draft", stopping=Stopping(max_tokens=48)), terms=Terms("chat", shadow=shadow)
    )
    steps: list[bool] = []
    async with running(bench.engine):
        async for event in bench.engine.generate(request):
            if getattr(event, "token_ids", ()):
                steps.append(len(event.token_ids) > 1)  # type: ignore[union-attr]
                state = states.get(len(steps), state)
    return steps


async def test_an_answer_under_way_stops_and_starts_to_be_drafted_with_the_switch() -> None:
    steps = await drafted_after({3: State.OFF, 10: State.ON})
    assert any(steps[:4])
    assert not any(steps[5:10])
    assert any(steps[10:])


async def test_shadow_keeps_an_answer_that_is_drafted_from_it() -> None:
    steps = await drafted_after({3: State.SHADOW})
    assert not any(steps[5:])


@pytest.fixture
async def valkey() -> AsyncGenerator[Valkey, None]:
    require_valkey()
    async with Valkey() as server:
        yield server


async def test_it_is_read_within_a_second_and_stays_when_redis_is_gone(valkey: Valkey) -> None:
    switched = Switched(valkey.url)
    reading = asyncio.create_task(switched.run())
    async with asyncio.timeout(20), redis.Redis.from_url(valkey.url) as client:
        await client.hset(switches.KEY, "chat", "off")
        while switched.state("chat") is not State.OFF:
            await asyncio.sleep(0.01)
        await valkey.kill()
        await asyncio.sleep(0.6)
        assert switched.state("chat") is State.OFF
        assert switched.state("code") is State.ON
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await switched.close()


async def test_without_redis_speculation_is_on() -> None:
    switched = Switched("")
    await switched.run()
    assert switched.state("chat") is State.ON
