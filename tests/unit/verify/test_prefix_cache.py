"""Answers that start on what was computed for others are the answers they would have been."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from common.errors import Internal
from common.model.block_manager import BLOCK_SIZE
from common.types import GenerateRequest, SamplingParams, Stopping
from tests.support.scripted import (
    GREEDY,
    Answer,
    Bench,
    CharTokenizer,
    ask,
    make_engine,
    read,
    running,
    sampled,
)
from tests.unit.verify.support import counting, hashed_target, sample, until

TOKENIZER = CharTokenizer()
SYSTEM = TOKENIZER.encode("you are a helpful assistant who answers every question in one short line.")
SAMPLINGS = {
    "greedy": GREEDY,
    "seeded": SamplingParams(seed=3),
    "seeded with penalties": SamplingParams(seed=4, repetition_penalty=1.3, presence_penalty=0.5),
}
THIRTY = Stopping(max_tokens=30, ignore_eos=True)


def bench_of(**options: int) -> Bench:
    target, draft = hashed_target(len(TOKENIZER)), hashed_target(len(TOKENIZER), drift=0.4)
    return make_engine(target, {"draft": sampled(draft)}, tokenizer=TOKENIZER, **options)  # type: ignore[arg-type]


def question(text: str, sampling: SamplingParams = GREEDY, cache_salt: str = "") -> GenerateRequest:
    prompt = [*SYSTEM, *TOKENIZER.encode(text)]
    return ask(prompt, "draft", sampling=sampling, stopping=THIRTY, cache_salt=cache_salt)


async def answers_to(bench: Bench, *requests: GenerateRequest) -> list[Answer]:
    """One after the other, so that each finds what the ones before it left."""
    async with running(bench.engine):
        return [await read(bench.engine, request) for request in requests]


def cached(answers: Sequence[Answer]) -> list[int]:
    return [answer.finished.usage.cached_tokens for answer in answers]


def whole_blocks(tokens: int) -> int:
    return tokens // BLOCK_SIZE * BLOCK_SIZE


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("budget", [16, 23, 256])
async def test_a_warm_cache_and_chunks_of_any_size_change_no_token(sampling: str, budget: int) -> None:
    requests = [question(text, SAMPLINGS[sampling]) for text in ("why?", "why not?", "why?", "")]
    cold = [(await answers_to(bench_of(prefix_caching=False), request))[0] for request in requests]
    warm = await answers_to(bench_of(max_batch_tokens=budget), *requests)
    assert [answer.token_ids for answer in warm] == [answer.token_ids for answer in cold]
    assert cached(cold) == [0, 0, 0, 0]
    shared = whole_blocks(len(SYSTEM))
    assert cached(warm) == [0, shared, whole_blocks(len(SYSTEM) + 4), shared]


@pytest.mark.parametrize("length", [BLOCK_SIZE, 2 * BLOCK_SIZE, 4 * BLOCK_SIZE])
async def test_of_a_prompt_that_is_cached_whole_the_last_token_alone_is_computed(length: int) -> None:
    bench = bench_of()
    request = ask(SYSTEM[:length], "draft", stopping=THIRTY)
    first, second, third = await answers_to(bench, request, request, request)
    assert first.token_ids == second.token_ids == third.token_ids
    assert cached([first, second, third]) == [0, length - 1, length - 1]
    copied = [len(moves) for moves in bench.runner.moves if moves]
    assert copied == [BLOCK_SIZE - 1] * 2, "the shared block is copied once per request, up to that token"
    bench.assert_idle()


async def test_the_next_turn_of_a_conversation_finds_the_answer_before_it() -> None:
    bench = bench_of()
    [first] = await answers_to(bench, question("why?"))
    history = [*SYSTEM, *TOKENIZER.encode("why?"), *first.token_ids]
    followup = ask([*history, *TOKENIZER.encode("and then?")], "draft", stopping=THIRTY)
    [second] = await answers_to(bench, followup)
    [cold] = await answers_to(bench_of(prefix_caching=False), followup)
    assert second.token_ids == cold.token_ids
    # All but the answer's last token was computed; of that, whole blocks are kept.
    assert cached([second]) == [whole_blocks(len(history) - 1)]


async def test_an_answer_that_ends_inside_a_block_leaves_nothing_of_what_was_drafted_beyond() -> None:
    bench = bench_of()
    for length in range(1, 2 * BLOCK_SIZE):
        request = ask(SYSTEM, "draft", stopping=Stopping(max_tokens=length, ignore_eos=True))
        [answer] = await answers_to(bench, request)
        history = [*SYSTEM, *answer.token_ids]
        [again] = await answers_to(bench, ask([*history, 1], stopping=Stopping(max_tokens=1)))
        assert cached([again])[0] <= whole_blocks(len(history))


@pytest.mark.parametrize("salts", [("", "a"), ("a", ""), ("a", "b"), ("a", "a ")])
async def test_the_same_text_under_another_salt_finds_nothing(salts: tuple[str, str]) -> None:
    bench = bench_of()
    first, second = (question("what do you know of me?", cache_salt=salt) for salt in salts)
    await answers_to(bench, first)
    with counting("tandem_prefix_cache_hits_total") as hits:
        [stranger] = await answers_to(bench, second)
    assert (hits.by, cached([stranger])) == (0, [0])
    with counting("tandem_prefix_cache_hits_total") as hits:
        both = await answers_to(bench, first, second)
    assert min(cached(both)) > 0
    assert hits.by == sum(cached(both))


async def test_of_a_prompt_shorter_than_a_block_nothing_is_cached() -> None:
    bench = bench_of()
    short = SYSTEM[: BLOCK_SIZE - 1]
    requests = [ask(short, stopping=Stopping(max_tokens=1), cache_salt="a") for _ in range(3)]
    assert cached(await answers_to(bench, *requests)) == [0, 0, 0]


async def test_sequences_that_run_together_share_blocks_and_give_what_each_gives_alone() -> None:
    texts = ["why?", "who?", "when?", "where?", "why not?", "how?", "whence?", ""]
    requests = [question(text, SAMPLINGS["seeded"]) for text in texts]
    cold = await answers_to(bench_of(prefix_caching=False), *requests)
    bench = bench_of()
    async with running(bench.engine):
        await read(bench.engine, requests[0])
        answers = await asyncio.gather(*(read(bench.engine, request) for request in requests))
    assert [answer.token_ids for answer in answers] == [answer.token_ids for answer in cold]
    together = max(bench.runner.passes, key=len)
    assert len(together) == len(texts)
    assert len({segment.blocks[0] for segment in together}) == 1
    bench.assert_idle()


@pytest.mark.parametrize("sampling", SAMPLINGS)
async def test_preempted_sequences_find_their_own_blocks_again_and_nobody_elses(sampling: str) -> None:
    requests = [question(f"{index}?", SAMPLINGS[sampling], "ab"[index % 2]) for index in range(8)]
    cold = await answers_to(bench_of(prefix_caching=False), *requests)
    bench = bench_of(num_blocks=14, context_length=120, max_batch_tokens=40)
    with (
        counting("tandem_num_preemptions_total") as preemptions,
        counting("tandem_prefix_cache_evictions_total") as evictions,
        counting("tandem_prefix_cache_queries_total") as queries,
    ):
        async with running(bench.engine):
            answers = await asyncio.gather(*(read(bench.engine, request) for request in requests))
    assert [answer.token_ids for answer in answers] == [answer.token_ids for answer in cold]
    assert min(preemptions.by, evictions.by) > 0
    assert queries.by == sum(answer.started.prompt_tokens for answer in answers)
    bench.assert_idle()


async def test_a_preempted_sequence_computes_again_only_what_was_evicted() -> None:
    requests = [question(f"{index}?", cache_salt=str(index)) for index in range(4)]
    computed = []
    for prefix_caching in (True, False):
        bench = bench_of(num_blocks=17, context_length=120, prefix_caching=prefix_caching)
        with counting("tandem_num_preemptions_total") as preemptions:
            async with running(bench.engine):
                await asyncio.gather(*(read(bench.engine, request) for request in requests))
        assert preemptions.by > 0
        computed.append(sum(bench.runner.pass_sizes))
    assert computed[0] < computed[1] - len(SYSTEM) / 2


async def test_under_pressure_the_prompt_that_is_asked_for_most_stays_cached() -> None:
    bench = bench_of(num_blocks=12, context_length=120)
    requests = []
    for index in range(12):
        rare = TOKENIZER.encode(f"{index} is a prompt that nobody sends a second time")
        requests += [question("?"), ask(rare, stopping=Stopping(max_tokens=2))]
    with counting("tandem_prefix_cache_evictions_total") as evictions:
        answers = await answers_to(bench, *requests)
    assert evictions.by > 0
    assert min(cached(answers[2::2])) >= whole_blocks(len(SYSTEM))
    assert set(cached(answers[1::2])) == {0}


async def test_after_a_failed_pass_nothing_that_was_cached_is_used() -> None:
    bench = bench_of()
    async with running(bench.engine):
        await read(bench.engine, question("why?"))
        bench.runner.fail_next = True
        with pytest.raises(Internal):
            await read(bench.engine, question("why?"))
        assert cached([await read(bench.engine, question("why?"))]) == [0]
        assert cached([await read(bench.engine, question("why?"))]) != [0]


async def test_a_client_that_leaves_in_mid_pass_leaves_what_was_computed_before_it() -> None:
    bench = bench_of(max_batch_tokens=2 * BLOCK_SIZE)
    bench.runner.pause_seconds = 0.005
    request = ask(SYSTEM * 5, stopping=THIRTY)
    async with running(bench.engine):
        leaving = bench.engine.generate(request)
        await anext(leaving)
        await until(lambda: len(bench.runner.passes) > 0)
        bench.runner.gate.clear()
        await until(lambda: bench.runner.inside)
        [sequence] = bench.scheduler.running
        computed = sequence.num_computed
        assert 0 < computed < len(SYSTEM * 5)
        await leaving.aclose()
        bench.assert_idle()
        bench.runner.gate.set()
        answer = await read(bench.engine, request)
    assert cached([answer]) == [computed]
    [cold] = await answers_to(bench_of(prefix_caching=False), request)
    assert answer.token_ids == cold.token_ids


async def test_queries_and_hits_are_counted_in_prompt_tokens_once_per_request() -> None:
    bench = bench_of()
    with (
        counting("tandem_prefix_cache_queries_total") as queries,
        counting("tandem_prefix_cache_hits_total") as hits,
    ):
        await answers_to(bench, question("why?"), question("why not?"))
    assert queries.by == 2 * len(SYSTEM) + len("why?") + len("why not?")
    assert hits.by == whole_blocks(len(SYSTEM))


async def test_no_step_leaves_a_fragment_whatever_is_accepted() -> None:
    bench = bench_of(num_blocks=24, context_length=160)
    requests = [question(f"{index}?", SAMPLINGS["seeded"]) for index in range(12)]
    async with asyncio.timeout(20):
        reading = [asyncio.create_task(read(bench.engine, request)) for request in requests]
        while not all(task.done() for task in reading):
            await asyncio.sleep(0)
            if bench.engine.load != (0, 0):
                await bench.engine.step()
                assert sample("tandem_kv_fragments") == 0
    stats = [task.result().finished.stats for task in reading]
    assert sum(s.accepted_tokens for s in stats) > 0
    assert sum(s.draft_tokens - s.accepted_tokens for s in stats) > 0
