"""A client that leaves takes everything it held with it, and nothing of anybody else's."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from common.draft_types import Close
from common.types import Delta, GenerateEvent, GenerateRequest, SamplingParams, SpeculationParams, Stopping
from tests.support.scripted import (
    EOS,
    GREEDY,
    Bench,
    CharTokenizer,
    Script,
    ask,
    make_engine,
    never,
    perfect,
    read,
    running,
)
from tests.unit.verify.support import counting, until

TOKENIZER = CharTokenizer()
PROMPT = TOKENIZER.encode("go")
LONG_PROMPT = PROMPT * 100
ENDLESS = Stopping(max_tokens=400)


def bench_of(*, wait_seconds: float = 0.5, **options: int) -> Bench:
    script = Script(len(TOKENIZER))
    script.add(PROMPT, [*TOKENIZER.encode(" on and on"), *TOKENIZER.encode("and on") * 80])
    script.add(LONG_PROMPT, PROMPT)
    drafts = {"draft": perfect(script), "silent": never}
    return make_engine(script, drafts, wait_seconds=wait_seconds, **options)  # type: ignore[arg-type]


async def deltas(events: AsyncGenerator[GenerateEvent, None], count: int) -> None:
    while count:
        count -= isinstance(await anext(events), Delta)


async def assert_frees(bench: Bench, events: AsyncGenerator[GenerateEvent, None]) -> None:
    with counting("tandem_requests_finished_total", reason="cancelled") as cancelled:
        started = time.monotonic()
        await events.aclose()
        bench.assert_idle()
        assert time.monotonic() - started < 0.2
    assert cancelled.by == 1


async def test_leaving_before_the_first_event_is_read_holds_nothing() -> None:
    bench = bench_of()
    async with running(bench.engine):
        await bench.engine.generate(ask(PROMPT)).aclose()
        bench.assert_idle()


async def test_leaving_while_waiting_for_a_place_frees_the_place_in_the_queue() -> None:
    bench = bench_of(max_running=1)
    async with running(bench.engine):
        first = bench.engine.generate(ask(PROMPT, "draft", stopping=ENDLESS))
        await deltas(first, 1)
        second = bench.engine.generate(ask(PROMPT, "draft"))
        await anext(second)
        assert bench.engine.load == (1, 1)
        await second.aclose()
        assert bench.engine.load == (1, 0)
        await assert_frees(bench, first)


async def test_leaving_between_two_chunks_of_the_prompt_frees_its_blocks() -> None:
    bench = bench_of(max_batch_tokens=16)
    bench.runner.pause_seconds = 0.005
    async with running(bench.engine):
        events = bench.engine.generate(ask(LONG_PROMPT, "draft", stopping=ENDLESS))
        await anext(events)
        await until(lambda: len(bench.runner.passes) > 2)
        await assert_frees(bench, events)


@pytest.mark.parametrize("address", ["draft", "silent", None])
async def test_leaving_while_decoding_frees_blocks_and_draft_session(address: str | None) -> None:
    bench = bench_of()
    bench.runner.pause_seconds = 0.002
    async with running(bench.engine):
        events = bench.engine.generate(ask(PROMPT, *([address] if address else []), stopping=ENDLESS))
        await deltas(events, 3)
        await assert_frees(bench, events)
        if address:
            assert isinstance(bench.drafts.links[address].updates[-1], Close)


async def test_leaving_while_a_pass_runs_frees_at_once_and_the_pass_ends_in_peace() -> None:
    bench = bench_of()
    async with running(bench.engine):
        events = bench.engine.generate(ask(PROMPT, "draft", stopping=ENDLESS))
        await deltas(events, 2)
        bench.runner.gate.clear()
        passes = len(bench.runner.passes)
        await asyncio.sleep(0.02)
        await assert_frees(bench, events)
        bench.runner.gate.set()
        await until(lambda: len(bench.runner.passes) >= passes)
        assert (await read(bench.engine, ask(PROMPT, "draft", stopping=Stopping(max_tokens=9)))).text


async def test_an_answer_whose_last_token_comes_after_its_client_left_is_cancelled_and_no_more() -> None:
    bench = bench_of()
    bench.runner.gate.clear()
    async with running(bench.engine):
        events = bench.engine.generate(ask(PROMPT, stopping=Stopping(max_tokens=1)))
        await anext(events)
        await until(lambda: bench.runner.inside)
        with (
            counting("tandem_requests_finished_total", reason="length") as finished,
            counting("tandem_generation_tokens_total") as delivered,
        ):
            await assert_frees(bench, events)
            bench.runner.gate.set()
            await until(lambda: not bench.runner.inside)
            await asyncio.sleep(0.02)
        assert (finished.by, delivered.by) == (0, 0)
        bench.assert_idle()


async def test_leaving_while_a_draft_is_waited_for_frees_at_once() -> None:
    bench = bench_of(wait_seconds=5.0)
    async with running(bench.engine):
        events = bench.engine.generate(ask(PROMPT, "draft", stopping=ENDLESS))
        await deltas(events, 2)
        bench.drafts.links["draft"].propose = never
        passes = 0
        while passes != len(bench.runner.passes):
            passes = len(bench.runner.passes)
            await asyncio.sleep(0.02)
        await assert_frees(bench, events)
        # Nobody is left to wait for; the next request does not inherit the wait.
        started = time.monotonic()
        await read(bench.engine, ask(PROMPT, stopping=Stopping(max_tokens=2)))
        assert time.monotonic() - started < 1.0


async def test_leaving_after_the_last_event_was_made_but_not_read_frees_and_counts_once() -> None:
    bench = bench_of()
    async with running(bench.engine):
        events = bench.engine.generate(ask(PROMPT, "draft", stopping=Stopping(max_tokens=3)))
        await anext(events)
        await until(lambda: len(bench.runner.passes) > 0 and bench.engine.load == (0, 0))
        with counting("tandem_requests_finished_total", reason="cancelled") as cancelled:
            await events.aclose()
        assert cancelled.by == 0
        bench.assert_idle()


async def test_a_cancelled_task_counts_as_leaving() -> None:
    bench = bench_of()
    bench.runner.pause_seconds = 0.002
    async with running(bench.engine):
        task = asyncio.create_task(read(bench.engine, ask(PROMPT, "draft", stopping=ENDLESS)))
        await until(lambda: len(bench.runner.passes) > 3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        bench.assert_idle()


class PausingPrompt(list[int]):
    """Tokens that take their time when the model's thread reads them."""

    def __init__(self, token_ids: list[int]) -> None:
        super().__init__(token_ids)
        self.reading = threading.Event()
        self.may_go_on = threading.Event()

    def __getitem__(self, key: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            self.reading.set()
            self.may_go_on.wait(5)
        return super().__getitem__(key)


async def test_leaving_at_the_very_start_of_a_pass_does_not_harm_the_others_in_it() -> None:
    pausing = PausingPrompt(PROMPT)

    class Tokenizer(CharTokenizer):
        def encode(self, text: str) -> list[int]:
            return pausing if text == "pausing" else super().encode(text)

    script = Script(len(TOKENIZER))
    script.add(PROMPT, [*TOKENIZER.encode(" far"), EOS])
    bench = make_engine(script, tokenizer=Tokenizer())
    bench.runner.gate.clear()
    leaving = bench.engine.generate(GenerateRequest("leaving", "pausing", GREEDY))
    await anext(leaving)
    staying = asyncio.create_task(read(bench.engine, ask(PROMPT)))
    await until(lambda: bench.engine.load == (0, 2))
    async with running(bench.engine):
        await until(lambda: pausing.reading.is_set() or bench.runner.inside)
        await leaving.aclose()
        pausing.may_go_on.set()
        bench.runner.gate.set()
        assert (await staying).text == " far"
    bench.assert_idle()


async def test_clients_that_come_and_go_at_random_leave_nothing_and_disturb_nobody() -> None:
    bench = bench_of(num_blocks=12, context_length=120, max_batch_tokens=24)
    request = ask(
        PROMPT, "draft", stopping=Stopping(max_tokens=40), speculation=SpeculationParams(block_size=3)
    )
    seeded = ask(PROMPT, "draft", sampling=SamplingParams(seed=5), stopping=Stopping(max_tokens=40))

    async def leave_after(count: int) -> None:
        events = bench.engine.generate(request if count % 2 else seeded)
        await deltas(events, count)
        await events.aclose()

    async with running(bench.engine):
        expected = await read(bench.engine, request)
        leavers = [leave_after(1 + count % 8) for count in range(40)]
        answers = await asyncio.gather(*(read(bench.engine, request) for _ in range(4)), *leavers)
    assert {tuple(answer.token_ids) for answer in answers[:4] if answer} == {tuple(expected.token_ids)}
    bench.assert_idle()
