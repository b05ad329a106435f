"""Whole answers while block sizes are chosen on the way."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from common.draft_types import Block
from common.types import Mode, SamplingParams, SpeculationParams, Stopping
from tests.support.scripted import (
    CharTokenizer,
    DraftSession,
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
from tests.unit.verify.support import counting, hashed_target, sample
from verify_service.drafts.control.base import Policy
from verify_service.drafts.control.curve import through
from verify_service.drafts.control.registry import make
from verify_service.drafts.limits import Limits
from verify_service.metrics import Labels

TOKENIZER = CharTokenizer()
PROMPT = TOKENIZER.encode("once upon")
LENGTH = 160
POLICIES = ("throughput", "window", "fixed")


def policy(name: str) -> Policy:
    """Rows beyond the first are dear, so that useless drafts are soon left."""
    return make(name, through([(1, 0.001), (2, 0.0015), (4, 0.0025)]))  # type: ignore[arg-type]


def drafted(kind: str, script: Script) -> Propose:
    makers = {"perfect": perfect, "half_wrong": half_wrong, "garbage": garbage}
    return makers[kind](script) if kind in makers else never


def scripted() -> Script:
    script = Script(len(TOKENIZER))
    script.add(PROMPT, [1 + index * 7 % 20 for index in range(LENGTH)])
    return script


@pytest.mark.parametrize("kind", ["perfect", "half_wrong", "garbage", "silent"])
@pytest.mark.parametrize("name", POLICIES)
async def test_the_answer_is_the_targets_whatever_decides_on_the_blocks(name: str, kind: str) -> None:
    script = scripted()
    bench = make_engine(script, {"draft": drafted(kind, script)}, policy=policy(name), block_size=8)
    asked = ask(PROMPT, "draft", stopping=Stopping(max_tokens=LENGTH))
    answer = await collect(bench.engine, asked)
    assert answer.token_ids == script.continuation(PROMPT, LENGTH)
    bench.assert_idle()


@pytest.mark.parametrize("tree_width", [1, 3])
@pytest.mark.parametrize("name", POLICIES)
async def test_seeded_answers_in_a_batch_are_those_without_drafts(name: str, tree_width: int) -> None:
    target, draft = hashed_target(12), hashed_target(12, drift=0.3)

    async def answers(*addresses: str) -> list[list[int]]:
        bench = make_engine(
            target,
            {"draft": sampled(draft)},
            policy=policy(name),
            block_size=8,
            tree_width=tree_width,
            limits=Limits(min_confidence=0.25),
        )
        requests = [
            ask(
                [1 + index, 3, 5],
                *addresses,
                sampling=SamplingParams(seed=index),
                stopping=Stopping(max_tokens=40, ignore_eos=True),
                speculation=SpeculationParams(mode=Mode.KEYED),
            )
            for index in range(4)
        ]
        async with running(bench.engine):
            found = await asyncio.gather(*(read(bench.engine, request) for request in requests))
        return [answer.token_ids for answer in found]

    assert await answers("draft") == await answers()


async def test_useless_drafts_are_left_and_only_probed() -> None:
    script = scripted()
    bench = make_engine(script, {"draft": garbage(script)}, policy=policy("throughput"), block_size=8)
    asked = ask(PROMPT, "draft", stopping=Stopping(max_tokens=LENGTH))
    off = sample("tandem_draft_sessions_off")
    with counting("tandem_draft_probes_total", fate="wrong") as probes:
        answer = await collect(bench.engine, asked)
    assert answer.finished.stats.draft_tokens < LENGTH / 2
    assert probes.by >= 2
    assert sample("tandem_draft_sessions_off") == off


async def test_good_drafts_are_used_in_blocks_up_to_the_largest() -> None:
    script = scripted()
    bench = make_engine(
        script, {"draft": perfect(script)}, policy=make("throughput", through([(1, 1), (8, 1.1)]))
    )
    asked = ask(PROMPT, "draft", stopping=Stopping(max_tokens=LENGTH))
    answer = await collect(bench.engine, asked)
    stats = answer.finished.stats
    assert len(stats.drafted_per_position) == bench.admission.block_size
    assert stats.accepted_tokens > LENGTH / 2


async def test_passes_are_measured_by_their_rows_and_those_with_prefill_are_not() -> None:
    script = scripted()
    bench = make_engine(script, {"draft": perfect(script)}, block_size=3)
    with (
        counting("tandem_verify_pass_seconds_count", rows="1") as single,
        counting("tandem_verify_pass_seconds_count", rows="4") as blocks,
        counting("tandem_verify_steps_total") as steps,
    ):
        await collect(bench.engine, ask(PROMPT, "draft", stopping=Stopping(max_tokens=21)))
    assert single.by + blocks.by == steps.by - 1
    assert blocks.by >= 4


async def test_what_each_source_of_a_pool_adds_is_counted() -> None:
    script = scripted()
    right, wrong = perfect(script), garbage(script)

    def pooled(session: DraftSession) -> Block:
        """Two right guesses by one source, then wrong ones by another."""
        good, bad = right(session), wrong(session)
        assert isinstance(good, Block)
        assert isinstance(bad, Block)
        guesses = (*good.token_ids[:2], *bad.token_ids[2:])
        sources = tuple("suffix" if place < 2 else "ngram" for place in range(len(guesses)))
        return replace(good, token_ids=guesses, sources=sources)

    bench = make_engine(script, {"draft": pooled}, block_size=4)
    drafted = "tandem_spec_decode_num_draft_tokens_per_source_total"
    accepted = "tandem_spec_decode_num_accepted_tokens_per_source_total"
    with (
        counting(drafted, source="pool-draft/suffix") as good_drafted,
        counting(accepted, source="pool-draft/suffix") as good_accepted,
        counting(drafted, source="pool-draft/ngram") as bad_drafted,
        counting(accepted, source="pool-draft/ngram") as bad_accepted,
    ):
        answer = await collect(bench.engine, ask(PROMPT, "draft", stopping=Stopping(max_tokens=40)))
    assert good_accepted.by == answer.finished.stats.accepted_tokens > 0
    assert good_drafted.by + bad_drafted.by == answer.finished.stats.draft_tokens
    assert bad_drafted.by > bad_accepted.by == 0


def test_names_beyond_a_number_share_a_label() -> None:
    labels = Labels(2)
    assert [labels.of(name) for name in ("a", "b", "c", "a", "d")] == ["a", "b", "other", "a", "other"]
