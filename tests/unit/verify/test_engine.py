"""The step as a whole, with a scripted target and scripted drafts."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from common.errors import Internal, InvalidRequest, Overloaded
from common.types import (
    Delta,
    DraftEndpoint,
    Finished,
    GenerateRequest,
    Mode,
    Origin,
    SamplingParams,
    SpeculationParams,
    Started,
    Stopping,
)
from tests.support.scripted import (
    EOS,
    Answer,
    Bench,
    CharTokenizer,
    Propose,
    Script,
    ask,
    collect,
    garbage,
    half_wrong,
    make_engine,
    never,
    perfect,
    read,
    running,
    sampled,
)
from tests.unit.verify.support import counting, hashed_target, until

TOKENIZER = CharTokenizer()
VOCABULARY = len(TOKENIZER)
PROMPT = TOKENIZER.encode("once upon")
ANSWER = [*TOKENIZER.encode(" a time there was a fox"), EOS]


def scripted() -> Script:
    script = Script(VOCABULARY)
    script.add(PROMPT, ANSWER)
    return script


def drafted(make: str, script: Script) -> dict[str, Propose]:
    makers = {"perfect": perfect, "half_wrong": half_wrong, "garbage": garbage}
    return {"draft": makers[make](script) if make in makers else never}


@pytest.mark.parametrize("draft", ["perfect", "half_wrong", "garbage", "silent"])
async def test_started_comes_first_finished_last_and_each_once(draft: str) -> None:
    script = scripted()
    answer = await collect(make_engine(script, drafted(draft, script)).engine, ask(PROMPT, "draft"))
    kinds = [type(event) for event in answer.events]
    assert (kinds[0], kinds[-1]) == (Started, Finished)
    assert set(kinds[1:-1]) == {Delta}
    assert all(delta.token_ids for delta in answer.deltas)
    assert (answer.started.model, answer.started.prompt_tokens) == ("scripted", len(PROMPT))
    assert answer.started.system_fingerprint == "tandem-scripted"


@pytest.mark.parametrize("draft", ["perfect", "half_wrong", "garbage", "silent"])
async def test_the_origin_of_every_token_adds_up_with_the_counters(draft: str) -> None:
    script = scripted()
    answer = await collect(make_engine(script, drafted(draft, script)).engine, ask(PROMPT, "draft"))
    stats, origins = answer.finished.stats, [p.origin for p in answer.provenance]
    assert answer.token_ids == ANSWER
    assert origins.count(Origin.DRAFT) == stats.accepted_tokens
    ended_inside_block = origins[-1] is Origin.DRAFT
    judged = origins.count(Origin.BONUS) + origins.count(Origin.CORRECTED) + ended_inside_block
    assert judged == stats.drafts
    assert origins.count(Origin.TARGET) + stats.drafts == stats.steps == len(answer.deltas)
    assert stats.draft_tokens == sum(stats.drafted_per_position)
    assert stats.accepted_tokens == sum(stats.accepted_per_position)
    assert all(a <= b for a, b in zip(stats.accepted_per_position, stats.drafted_per_position, strict=True))
    assert stats.accepted_per_position == sorted(stats.accepted_per_position, reverse=True)
    named = {p.source for p in answer.provenance if p.origin in {Origin.DRAFT, Origin.CORRECTED}}
    assert named <= {"pool-draft"}
    assert {p.source for p in answer.provenance if p.origin in {Origin.TARGET, Origin.BONUS}} <= {""}


async def test_a_corrected_token_stands_where_the_first_wrong_guess_did() -> None:
    script = scripted()
    answer = await collect(make_engine(script, drafted("half_wrong", script)).engine, ask(PROMPT, "draft"))
    for delta in answer.deltas:
        origins = [p.origin for p in delta.provenance]
        assert all(origin is Origin.DRAFT for origin in origins[:-1])
    assert {Origin.DRAFT, Origin.CORRECTED} <= {p.origin for p in answer.provenance}


async def test_a_perfect_draft_needs_a_pass_per_block_and_no_more() -> None:
    script = scripted()
    bench = make_engine(script, drafted("perfect", script), block_size=5)
    answer = await collect(bench.engine, ask(PROMPT, "draft"))
    assert answer.finished.stats.accepted_tokens == answer.finished.stats.draft_tokens
    assert len(bench.runner.passes) == 1 + -(-(len(ANSWER) - 1) // 6)


async def test_speculation_that_is_disabled_asks_no_draft() -> None:
    script = scripted()
    bench = make_engine(script, drafted("perfect", script))
    request = ask(PROMPT, "draft", speculation=SpeculationParams(disabled=True))
    answer = await collect(bench.engine, request)
    assert answer.token_ids == ANSWER
    assert answer.finished.stats.drafts == 0
    assert not bench.drafts.links


async def test_a_target_that_fails_ends_its_requests_with_internal_and_the_next_one_works() -> None:
    script = scripted()
    bench = make_engine(script, drafted("perfect", script))
    bench.runner.fail_next = True
    reads = [asyncio.create_task(read(bench.engine, ask(PROMPT, "draft"))) for _ in range(3)]
    while bench.engine.load != (0, 3):  # all of them are in the step that fails
        await asyncio.sleep(0.001)
    async with running(bench.engine):
        with counting("tandem_requests_finished_total", reason="error") as failed:
            results = await asyncio.gather(*reads, return_exceptions=True)
        assert [type(result) for result in results] == [Internal] * 3
        assert failed.by == 3
        bench.assert_idle()
        assert (await read(bench.engine, ask(PROMPT, "draft"))).token_ids == ANSWER
    bench.assert_idle()


async def test_a_target_that_fails_spares_requests_that_only_wait() -> None:
    script = scripted()
    bench = make_engine(script, max_running=1)
    bench.runner.gate.clear()
    async with running(bench.engine):
        first = asyncio.create_task(read(bench.engine, ask(PROMPT)))
        await until(lambda: bench.engine.load == (1, 0))
        second = asyncio.create_task(read(bench.engine, ask(PROMPT)))
        await until(lambda: bench.engine.load == (1, 1))
        bench.runner.fail_next = True
        bench.runner.gate.set()
        with pytest.raises(Internal):
            await first
        assert (await second).token_ids == ANSWER


async def test_a_client_that_does_not_read_holds_at_most_one_event_a_step() -> None:
    script = scripted()
    bench = make_engine(script, drafted("half_wrong", script))
    async with running(bench.engine):
        events = bench.engine.generate(ask(PROMPT, "draft"))
        assert isinstance(await anext(events), Started)
        await until(lambda: bench.engine.load[0] == 1)
        [sequence] = bench.scheduler.running
        await until(lambda: sequence.finished)
        assert sequence.events.qsize() == sequence.stats.steps + 1 <= len(ANSWER) + 1
        bench.assert_idle()
        rest = Answer([event async for event in events])
    assert rest.token_ids == ANSWER


def keyed_requests() -> list[GenerateRequest]:
    return [
        ask(
            TOKENIZER.encode(f"prompt {index}"),
            "draft",
            sampling=SamplingParams(
                temperature=0.5 * (index % 3), seed=index - 4, top_k=10 * (index % 2), presence_penalty=0.5
            ),
            stopping=Stopping(max_tokens=20 + 3 * index, stop=("th",)),
            speculation=SpeculationParams(block_size=1 + index),
        )
        for index in range(8)
    ]


def noisy_bench(**options: int) -> Bench:
    target, draft = hashed_target(VOCABULARY), hashed_target(VOCABULARY, drift=0.4)
    return make_engine(target, {"draft": sampled(draft)}, tokenizer=TOKENIZER, **options)  # type: ignore[arg-type]


async def test_eight_sequences_at_once_give_what_each_gives_alone() -> None:
    alone = noisy_bench()
    async with running(alone.engine):
        expected = [await read(alone.engine, request) for request in keyed_requests()]
    together = noisy_bench()
    async with running(together.engine):
        answers = await asyncio.gather(*(read(together.engine, request) for request in keyed_requests()))
    assert [answer.token_ids for answer in answers] == [answer.token_ids for answer in expected]
    assert [answer.text for answer in answers] == [answer.text for answer in expected]
    assert sum(answer.finished.stats.accepted_tokens for answer in answers) > 0
    assert max(len(segments) for segments in together.runner.passes) == 8


async def test_sequences_that_are_preempted_again_and_again_give_what_each_gives_undisturbed() -> None:
    roomy = noisy_bench()
    requests = [*keyed_requests(), *keyed_requests()]
    async with running(roomy.engine):
        expected = [await read(roomy.engine, request) for request in requests[:8]]
    tiny = noisy_bench(num_blocks=7, context_length=90, max_batch_tokens=40)
    async with running(tiny.engine):
        answers = await asyncio.gather(*(read(tiny.engine, request) for request in requests))
    for answer, undisturbed in zip(answers, expected * 2, strict=True):
        assert answer.token_ids == undisturbed.token_ids
        assert answer.text == undisturbed.text
    recomputed = sum(tiny.runner.pass_sizes) / sum(len(answer.token_ids) for answer in answers)
    assert recomputed > 1, "nothing was preempted; the pool is too large for this test"
    tiny.assert_idle()


@pytest.mark.parametrize("budget", [16, 17, 33])
async def test_a_prompt_prefilled_in_chunks_gives_the_same_answer(budget: int) -> None:
    script = Script(VOCABULARY)
    prompt = TOKENIZER.encode("a rather long prompt of more than one chunk, to be computed bit by bit")
    script.add(prompt, ANSWER)
    bench = make_engine(script, {"draft": perfect(script)}, max_batch_tokens=budget)
    answer = await collect(bench.engine, ask(prompt, "draft"))
    assert answer.token_ids == ANSWER
    assert len(bench.runner.passes[0][0].token_ids) == budget


async def test_the_prompt_may_be_text_or_a_conversation_or_ids() -> None:
    script = scripted()
    bench = make_engine(script)
    async with running(bench.engine):
        for prompt in ("once upon", PROMPT):
            request = GenerateRequest("r", prompt, SamplingParams(temperature=0))
            assert (await read(bench.engine, request)).token_ids == ANSWER


async def test_two_requests_of_one_seed_agree_and_unseeded_ones_do_not() -> None:
    bench = noisy_bench()
    stopping = Stopping(max_tokens=30, ignore_eos=True)
    async with running(bench.engine):
        seeded = [
            await read(
                bench.engine, ask(PROMPT, *drafts, sampling=SamplingParams(seed=11), stopping=stopping)
            )
            for drafts in ((), ("draft",), ("draft", "other"))
        ]
        unseeded = [
            await read(bench.engine, ask(PROMPT, "draft", sampling=SamplingParams(), stopping=stopping))
            for _ in range(2)
        ]
    assert len({tuple(answer.token_ids) for answer in seeded}) == 1
    assert {answer.started.mode for answer in seeded} == {Mode.KEYED}
    assert unseeded[0].token_ids != unseeded[1].token_ids
    assert {answer.started.mode for answer in unseeded} == {Mode.REJECTION}


async def test_a_request_that_is_refused_leaves_nothing_behind() -> None:
    script = scripted()
    bench = make_engine(script, max_waiting=1)
    with pytest.raises(InvalidRequest):
        await collect(bench.engine, ask([VOCABULARY], "draft"))
    queued = bench.engine.generate(ask(PROMPT))
    await anext(queued)
    with pytest.raises(Overloaded):
        await anext(bench.engine.generate(ask(PROMPT)))
    await queued.aclose()
    bench.assert_idle()


async def test_every_pass_and_every_prompt_token_is_counted() -> None:
    script = scripted()
    bench = make_engine(script)
    with counting("tandem_verify_steps_total") as steps, counting("tandem_prompt_tokens_total") as prompts:
        await collect(bench.engine, ask(PROMPT))
    assert steps.by == len(bench.runner.passes)
    assert prompts.by == len(PROMPT)


async def test_the_speculation_metrics_move_as_the_answers_counters_do() -> None:
    script = scripted()
    bench = make_engine(script, drafted("half_wrong", script))
    with (
        counting("tandem_spec_decode_num_drafts_total") as drafts,
        counting("tandem_spec_decode_num_draft_tokens_total") as guesses,
        counting("tandem_spec_decode_num_accepted_tokens_total") as accepted,
        counting("tandem_spec_decode_num_accepted_tokens_per_pos_total", position="0") as first,
        counting("tandem_generation_tokens_total") as delivered,
        counting("tandem_draft_blocks_total", outcome="verified") as verified,
    ):
        answer = await collect(bench.engine, ask(PROMPT, "draft"))
    stats = answer.finished.stats
    assert (drafts.by, guesses.by, accepted.by) == (stats.drafts, stats.draft_tokens, stats.accepted_tokens)
    assert first.by == stats.accepted_per_position[0]
    assert delivered.by == len(ANSWER)
    assert verified.by == stats.drafts


async def test_many_answers_in_a_row_on_one_engine_leave_no_session_behind() -> None:
    bench = noisy_bench()
    async with running(bench.engine):
        for request in itertools.islice(itertools.cycle(keyed_requests()), 24):
            await read(bench.engine, request)
    bench.assert_idle()
    opened = [type(update).__name__ for update in bench.drafts.links["draft"].updates]
    assert opened.count("Open") == opened.count("Close") == 24


async def test_an_endpoint_named_twice_and_an_unreachable_one_do_no_harm() -> None:
    script = scripted()
    bench = make_engine(script, drafted("perfect", script))
    request = ask(PROMPT, "silent", "draft", "draft")
    request = GenerateRequest(
        "r", request.prompt, request.sampling, drafts=(*request.drafts, DraftEndpoint("x", ""))
    )
    assert (await collect(bench.engine, request)).token_ids == ANSWER
    bench.assert_idle()


async def test_the_event_loop_does_not_wait_for_the_model() -> None:
    bench = make_engine(scripted())
    bench.runner.pause_seconds = 0.3
    beats = []

    async def beat() -> None:
        while True:
            beats.append(time.monotonic())
            await asyncio.sleep(0.005)

    beating = asyncio.create_task(beat())
    await collect(bench.engine, ask(PROMPT, stopping=Stopping(max_tokens=2)))
    beating.cancel()
    assert max(later - earlier for earlier, later in itertools.pairwise(beats)) < 0.25
