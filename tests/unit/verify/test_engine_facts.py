"""The engine with fact checks: a veto changes nothing of the output, annotations come before the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
import redis.asyncio as redis
import torch
from torch import Tensor

from common import streams
from common.draft_types import Block, SparseDistribution
from common.streams import Flag, TagRecord
from common.trace import Fate
from common.types import (
    Delta,
    FactCheck,
    Finished,
    GenerateRequest,
    Origin,
    PolicyChoice,
    SpeculationParams,
    Stopping,
)
from tests.support.scripted import (
    EOS,
    Answer,
    Bench,
    CharTokenizer,
    DraftSession,
    Propose,
    Script,
    Target,
    ask,
    make_engine,
    perfect,
    read,
    running,
)
from tests.support.valkey import Valkey, require_valkey
from tests.unit.verify.support import until
from verify_service.engine import Waits
from verify_service.tags import TagReader

TOKENIZER = CharTokenizer()
PROMPT = TOKENIZER.encode("when was it?")
ANSWER = [*TOKENIZER.encode("it was in 1815, not later than that."), EOS]
PATIENT = Waits(tag=1.0, settle=1.0)
CLAIM = range(10, 14)  # of the answer: "1815"

Send = Callable[[TagRecord], None]


class Checker:
    """Stands for the draft's publisher and the fact check: tags every block, flagging the claim in it."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url, protocol=2)
        self._tasks: set[asyncio.Task[None]] = set()
        self.delay_seconds = 0.0
        self.silent = False

    def checking(self, draft: Propose) -> Propose:
        def propose(session: DraftSession) -> Block:
            block = draft(session)
            assert isinstance(block, Block)
            if session.opened.publish and block.token_ids and not self.silent:
                task = asyncio.create_task(self._tag(self._verdict(session, block)))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return block

        return propose

    def _verdict(self, session: DraftSession, block: Block) -> TagRecord:
        start = len(session.opened.token_ids[: session.opened.prompt_length]) + CLAIM.start
        first, end = start - block.base_length, start + len(CLAIM) - block.base_length
        inside = max(first, 0) < min(end, len(block.token_ids))
        flag = Flag(max(first, 0), min(end, len(block.token_ids)), "1815", "date", "1816")
        flags = (flag,) if inside else ()
        return TagRecord(session.opened.session_id, block.block_id, block.base_length, flags)

    async def _tag(self, tag: TagRecord) -> None:
        await asyncio.sleep(self.delay_seconds)
        await self._client.xadd(streams.TAGS, streams.encode(tag))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.aclose()


@asynccontextmanager
async def checked(
    block_size: int = 4, waits: Waits = PATIENT, target: Target | None = None, draft: Propose | None = None
) -> AsyncGenerator[tuple[Bench, Checker, Valkey], None]:
    require_valkey()
    async with Valkey() as valkey:
        checker = Checker(valkey.url)
        tags = TagReader(valkey.url)
        script = Script(len(TOKENIZER))
        script.add(PROMPT, ANSWER)
        drafts = {"draft": checker.checking(draft or perfect(script))}
        bench = make_engine(
            target or script, drafts, block_size=block_size, fact_checks=True, tags=tags, waits=waits
        )
        tail = asyncio.create_task(tags.run())
        await until(lambda: tags.alive)
        async with running(bench.engine):
            yield bench, checker, valkey
        tail.cancel()
        await asyncio.gather(tail, return_exceptions=True)
        await tags.close()
        await checker.close()


def asking(fact_check: FactCheck) -> GenerateRequest:
    return ask(PROMPT, "draft", speculation=SpeculationParams(fact_check=fact_check))


def claim_origins(answer: Answer) -> list[Origin]:
    return [answer.provenance[index].origin for index in CLAIM]


@pytest.mark.parametrize("block_size", [1, 3, 8])
async def test_a_veto_leaves_the_output_as_it_is_and_lets_the_target_write_the_claim(block_size: int) -> None:
    async with checked(block_size) as (bench, _, _):
        off = await read(bench.engine, asking(FactCheck.OFF))
        veto = await read(bench.engine, asking(FactCheck.VETO))
        assert veto.token_ids == off.token_ids == ANSWER
        assert veto.text == off.text
        assert veto.finished.stats.vetoed_tokens > 0
        assert veto.finished.stats.tags_missing == 0
        assert Origin.DRAFT not in claim_origins(veto)
        assert Origin.DRAFT in {p.origin for p in veto.provenance}
        assert off.finished.stats.vetoed_tokens == 0
        bench.assert_idle()


async def test_annotations_come_once_before_the_end_and_change_nothing() -> None:
    async with checked() as (bench, _, _):
        answer = await read(bench.engine, asking(FactCheck.ANNOTATE))
        assert answer.token_ids == ANSWER
        assert answer.finished.stats.vetoed_tokens == 0
        covered = [i for a in answer.annotations for i in range(a.first_token, a.first_token + a.token_count)]
        # A token that the target wrote between two blocks is in neither of them.
        assert sorted(covered) == [i for i in CLAIM if answer.provenance[i].origin is Origin.DRAFT] != []
        assert {a.verdict for a in answer.annotations} == {"contradicted"}
        assert isinstance(answer.events[-1], Finished)


async def test_a_verdict_that_comes_after_the_last_token_is_waited_for_a_little() -> None:
    async with checked() as (bench, checker, _):
        checker.delay_seconds = 0.1
        answer = await read(bench.engine, asking(FactCheck.ANNOTATE))
        assert answer.annotations
        last = answer.events[-2]
        assert isinstance(last, Delta)
        assert last.annotations
        assert not last.token_ids


async def test_verdicts_that_do_not_come_cost_a_wait_and_are_counted() -> None:
    async with checked(waits=Waits(tag=0.005, settle=0.02)) as (bench, checker, _):
        checker.silent = True
        answer = await read(bench.engine, asking(FactCheck.VETO))
        assert answer.token_ids == ANSWER
        assert answer.annotations == []
        assert answer.finished.stats.tags_missing == answer.finished.stats.drafts > 0


async def test_a_dead_server_costs_neither_the_output_nor_time() -> None:
    async with checked(waits=Waits(tag=5.0, settle=5.0)) as (bench, checker, valkey):
        checker.silent = True
        await valkey.kill()
        await until(lambda: not bench.tags.alive)
        async with asyncio.timeout(3):
            for fact_check in (FactCheck.VETO, FactCheck.ANNOTATE):
                answer = await read(bench.engine, asking(fact_check))
                assert answer.token_ids == ANSWER


async def test_leaving_while_the_last_verdict_is_waited_for_leaves_nothing() -> None:
    async with checked(waits=Waits(tag=0.005, settle=10)) as (bench, checker, _):
        checker.silent = True
        task = asyncio.create_task(read(bench.engine, asking(FactCheck.ANNOTATE)))
        await until(lambda: len(bench.runner.passes) > 3 and bench.engine.load == (0, 0))
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        bench.assert_idle()


async def test_without_fact_checks_nothing_is_published_and_nobody_waits() -> None:
    async with checked(waits=Waits(tag=5.0, settle=5.0)) as (bench, checker, _):
        checker.silent = True
        async with asyncio.timeout(3):
            answer = await read(bench.engine, ask(PROMPT, "draft", stopping=Stopping(max_tokens=20)))
        assert len(answer.token_ids) == 20
        assert answer.finished.stats.tags_missing == 0


WRONG = [*TOKENIZER.encode("it was in 1851, not later than that."), EOS]


def torn(prefix: tuple[int, ...]) -> Tensor:
    """Says ``ANSWER``, but nearly as gladly ``WRONG``."""
    place = len(prefix) - len(PROMPT)
    logits = torch.full((len(TOKENIZER),), -20.0)
    logits[WRONG[place] if place < len(WRONG) else EOS] = 9.5
    logits[ANSWER[place] if place < len(ANSWER) else EOS] = 10.0
    return logits


def confident(session: DraftSession) -> Block:
    """Guesses ``WRONG`` and shows beliefs that are near the target's."""
    place = len(session.tokens) - len(PROMPT)
    pairs = list(zip(WRONG, ANSWER, strict=True))[place : place + session.block_size]
    shown = [
        SparseDistribution((guess,), (1.0,))
        if guess == other
        else SparseDistribution((guess, other), (0.5, 0.5))
        for guess, other in pairs
    ]
    return session.block([guess for guess, _ in pairs], shown if session.opened.shown_temperature else ())


async def test_a_veto_keeps_a_confident_wrong_number_out_that_a_lossy_policy_would_accept() -> None:
    policy = PolicyChoice("kl")
    async with checked(7, target=torn, draft=confident) as (bench, _, _):
        lossy = await read(bench.engine, ask(PROMPT, "draft", speculation=SpeculationParams(policy=policy)))
        assert lossy.token_ids == WRONG
        assert 0 < lossy.finished.stats.nkl_sum / lossy.finished.stats.accepted_tokens < 0.15
        vetoing = SpeculationParams(policy=policy, fact_check=FactCheck.VETO)
        veto = await read(bench.engine, ask(PROMPT, "draft", speculation=vetoing))
        assert veto.token_ids == ANSWER
        assert veto.finished.stats.strayed_tokens == 0
        bench.assert_idle()


@pytest.mark.parametrize(("mode", "vetoed"), [(FactCheck.ANNOTATE, False), (FactCheck.VETO, True)])
async def test_a_trace_has_the_flags_whether_they_veto_or_not(mode: FactCheck, vetoed: bool) -> None:
    request = ask(PROMPT, "draft", speculation=SpeculationParams(fact_check=mode, trace=True))
    async with checked(block_size=8) as (bench, _, _):
        await read(bench.engine, asking(FactCheck.OFF))
        bench.drafts.links["draft"].delay_seconds = 0.05  # so that verdicts are there before the blocks
        bench.runner.pause_seconds = 0.02  # and the first block before the claim
        answer = await read(bench.engine, request)
    steps = [delta.trace for delta in answer.deltas if delta.trace]
    assert {flag.text for step in steps for flag in step.flags} == {"1815"}
    assert (Fate.VETOED in {guess.fate for step in steps for guess in step.guesses}) == vetoed
