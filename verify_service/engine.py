"""The verify engine: schedule, run, accept, emit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from collections.abc import Sequence as Seq
from concurrent.futures import Executor
from contextlib import aclosing
from dataclasses import dataclass

from common import logging
from common.draft_types import Block
from common.errors import Internal, TandemError
from common.model.batch import Move, Runner, Segment
from common.trace import TraceStep
from common.types import (
    Delta,
    FactCheck,
    Finished,
    FinishReason,
    GenerateEvent,
    GenerateRequest,
    Mode,
    Started,
    Usage,
)
from verify_service import metrics
from verify_service.acceptance import ACCEPTANCE, Acceptance
from verify_service.admission import Admission
from verify_service.counting import count_deviations, count_step
from verify_service.drafts.hub import DraftHub
from verify_service.drafts.lookahead.lookahead import Lookahead
from verify_service.feedback.reporter import Reporter
from verify_service.judging import Judge, Judged, decided, keep_states, provenance_of
from verify_service.phases import Phases
from verify_service.scheduler import Scheduler, Work, decodes
from verify_service.segments import segment_of
from verify_service.sequence import Sequence
from verify_service.tags import TagReader
from verify_service.tracing import Pass
from verify_service.validators.vetting import Vetting

_WHOLE = tuple(reason.value for reason in FinishReason)

log = logging.get("engine")


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds that fact-check verdicts may hold up a step, and the end of an answer."""

    tag: float = 0.002
    settle: float = 0.05


class Engine:
    """Owns every sequence from admission to its last token.

    The model runs in ``thread``, a pool of one, so the event loop never waits for it.
    """

    def __init__(
        self,
        admission: Admission,
        scheduler: Scheduler,
        runner: Runner,
        thread: Executor,
        *,
        drafts: DraftHub,
        tags: TagReader,
        vetting: Vetting | None = None,
        lookahead: Lookahead | None = None,
        waits: Waits = Waits(),
        reporter: Reporter | None = None,
        acceptance: Mapping[Mode, Acceptance] = ACCEPTANCE,
    ) -> None:
        self._admission = admission
        self._scheduler = scheduler
        self._runner = runner
        self._drafts = drafts
        self._tags = tags
        self._vetting = vetting
        self._lookahead = lookahead
        self._waits = waits
        self._reporter = reporter
        self._judge = Judge(acceptance, admission.tokenizer.token_bytes)
        self._arrived = asyncio.Event()
        self._thread = thread

    @property
    def load(self) -> tuple[int, int]:
        """Sequences running and waiting."""
        return len(self._scheduler.running), len(self._scheduler.waiting)

    @property
    def kv_blocks_free(self) -> int:
        return self._scheduler.num_free_blocks

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[GenerateEvent, None]:
        """Stream one answer. Closing the stream early frees everything it held.

        Raises:
            InvalidRequest: for a prompt or parameter the target cannot serve.
            Overloaded: when too many requests wait.
        """
        sequence = await self._admission.sequence(request)
        self._scheduler.add(sequence)
        metrics.PROMPT_TOKENS.inc(sequence.prompt_length)
        if sequence.policy:
            metrics.POLICY_REQUESTS.labels(sequence.policy.name).inc()
        if sequence.facts:
            self._tags.watch(sequence.session_id, sequence.facts)
        self._arrived.set()
        try:
            yield Started(
                self._admission.model_name,
                sequence.prompt_length,
                sequence.mode,
                self._admission.system_fingerprint,
                sequence.policy.name if sequence.policy else "",
            )
            async with aclosing(self._events(sequence)) as events:
                async for event in events:
                    yield event
        finally:
            self._tags.unwatch(sequence.session_id)
            if not sequence.finished:
                self._retire(sequence, "cancelled")

    async def _events(self, sequence: Sequence) -> AsyncGenerator[GenerateEvent, None]:
        while True:
            event = await sequence.events.get()
            if isinstance(event, TandemError):
                raise event
            if isinstance(event, Finished) and sequence.facts:
                await sequence.facts.settle(self._waits.settle if self._tags.alive else 0)
                annotations = sequence.facts.annotations(sequence.tokens, sequence.prompt_length)
                if annotations:
                    yield Delta(annotations=annotations)
            yield event
            if isinstance(event, Finished):
                return

    async def run(self) -> None:
        """Step whenever there is work, until cancelled. A failed step ends its requests, not the engine."""
        while True:
            if not (self._scheduler.running or self._scheduler.waiting):
                self._arrived.clear()
                await self._arrived.wait()
            try:
                await self.step()
            except Exception:
                log.exception("a step failed; its requests end with an error")
                self._fail(Internal("the target model failed; the service's log has the details"))

    async def step(self) -> None:
        """One packed pass over everything that is ready."""
        step_started = time.perf_counter()
        phases = Phases()
        self._scheduler.admit()
        with phases.timed("wait"):
            await self._wait_for_drafts()
        work = self._look_ahead(self._scheduler.schedule(self._take_block))
        if not work:
            return
        # Cut here: while the thread runs, a client that leaves takes its sequence's blocks away.
        reads = self._drafts.reads_states
        cuts = [(item, segment_of(item, reads(item.sequence)), item.completes) for item in work]
        moves = self._scheduler.take_moves()
        started = time.perf_counter()
        loop = asyncio.get_running_loop()
        judged = await loop.run_in_executor(self._thread, self._execute, cuts, moves, phases)
        self._observe_pass(work, time.perf_counter() - started)
        shared = _shared(work, phases)
        with phases.timed("emit"):
            for item, result in zip(work, judged, strict=True):
                if not item.sequence.finished:
                    self._emit(item, result, shared)
        self._observe_step(work, judged, time.perf_counter() - step_started)
        self._observe()

    def _look_ahead(self, work: list[Work]) -> list[Work]:
        if self._lookahead is None or not self._lookahead.pays(len(work)):
            return work
        return self._scheduler.widen(work, self._lookahead.rows)

    def _observe_step(
        self, work: Seq[Work], judged: Seq[Judged | TandemError | None], seconds: float
    ) -> None:
        if not decodes(work):
            return
        tokens = sum(result.verdict.accepted + 1 for result in judged if isinstance(result, Judged))
        if any(item.guesses for item in work):
            self._drafts.observe_step(tokens, seconds)
        if self._lookahead:
            self._lookahead.observe_step(len(work), tokens, seconds)

    def _observe_pass(self, work: Seq[Work], seconds: float) -> None:
        """Rows of a prompt cost another price than rows that are judged, so only the latter are measured."""
        metrics.STEPS.inc()
        if decodes(work):
            rows = sum(item.num_rows for item in work)
            metrics.observe_pass(rows, seconds)
            self._drafts.observe_pass(rows, seconds)

    async def _wait_for_drafts(self) -> None:
        running = self._scheduler.running
        await self._drafts.wait(running)
        if self._vetting:
            await self._vetting.vet(running, self._drafts)
        vetoable = [
            (sequence.facts, block)
            for sequence in running
            if sequence.facts
            and sequence.facts.mode is FactCheck.VETO
            and (block := self._drafts.peek(sequence))
            and block.token_ids
        ]
        if vetoable:
            await self._tags.wait(vetoable, self._waits.tag)

    def _take_block(self, sequence: Sequence) -> Block | None:
        block = self._drafts.take(sequence)
        if sequence.trace:
            sequence.trace.begin(len(sequence.tokens))
        if block is None or sequence.facts is None:
            return block
        sequence.facts.decide(block)
        if sequence.trace:
            sequence.trace.flag(sequence.facts.flags(block))
        if sequence.facts.mode is not FactCheck.VETO:
            return block
        if not sequence.facts.has_tag(block):
            sequence.stats.tags_missing += 1
            metrics.TAGS_MISSING.inc()
        allowed = sequence.facts.veto(block)
        vetoed = len(block.token_ids) - len(allowed.token_ids)
        if sequence.trace:
            sequence.trace.veto(len(allowed.token_ids))
        sequence.stats.vetoed_tokens += vetoed
        metrics.VETOED_TOKENS.inc(vetoed)
        return allowed

    def _execute(
        self, cuts: Seq[tuple[Work, Segment, bool]], moves: Seq[Move], phases: Phases
    ) -> list[Judged | TandemError | None]:
        """Run the pass and judge its blocks; None for a prefill chunk that ends before its prompt does, an
        error for a sequence that cannot go on."""
        with phases.timed("model"):
            outputs = self._runner.run([segment for _, segment, _ in cuts], moves)
        with phases.timed("accept"):
            judged = [
                self._judge(item, output.logits) if completes else None
                for (item, _, completes), output in zip(cuts, outputs, strict=True)
            ]
            for (item, segment, _), output, result in zip(cuts, outputs, judged, strict=True):
                if output.hidden is not None:
                    keep_states(item, segment.start, result, output.hidden)
        return judged

    def _emit(self, item: Work, judged: Judged | TandemError | None, shared: Pass) -> None:
        """Commit what was decided, tell the draft and the client, and end the answer where it ends."""
        sequence = item.sequence
        if judged is None:
            sequence.num_computed += item.count
            self._scheduler.settle(sequence)
            return
        if isinstance(judged, TandemError):
            self._end(sequence, judged)
            return
        verdict = judged.verdict
        base_length = len(sequence.tokens)
        sequence.keep(verdict.nodes)
        reason = _commit(sequence, decided(item, verdict))
        self._scheduler.settle(sequence)
        if self._lookahead and judged.ahead:
            self._lookahead.learn(sequence, sequence.tokens[base_length - 1], judged.ahead)
        if reason is None:  # now, so that the draft works while the rest is done
            self._drafts.commit(sequence, base_length, item.block, verdict.nodes)
        delivered = tuple(sequence.tokens[base_length:])
        count_step(item, verdict.nodes[: len(delivered)], len(delivered))
        count_deviations(sequence, judged.deviations[: len(delivered)], len(delivered))
        annotations = (
            sequence.facts.annotations(sequence.tokens, sequence.prompt_length) if sequence.facts else ()
        )
        provenance = provenance_of(item, verdict)[: len(delivered)]
        text, logprobs = sequence.output.take_text(), judged.logprobs[: len(delivered)]
        trace = _trace(item, base_length, delivered, judged, shared)
        _note(item, judged, len(delivered), shared)
        sequence.events.put_nowait(Delta(delivered, provenance, text, annotations, logprobs, trace))
        if reason is not None:
            self._finish(sequence, reason)

    def _finish(self, sequence: Sequence, reason: FinishReason) -> None:
        completion = len(sequence.tokens) - sequence.prompt_length
        usage = Usage(sequence.prompt_length, completion, sequence.cached_tokens or 0)
        dropped = sequence.trace.dropped if sequence.trace else 0
        sequence.events.put_nowait(Finished(reason, usage, sequence.stats, dropped))
        self._retire(sequence, reason.value)

    def _retire(self, sequence: Sequence, reason: str) -> None:
        sequence.finished = True
        self._drafts.close(sequence)
        if self._vetting and sequence.validators:
            self._vetting.forget(sequence.validators)
        if self._reporter:
            self._reporter.report(sequence, finished=reason in _WHOLE)
        self._scheduler.remove(sequence)
        metrics.FINISHED.labels(reason).inc()
        self._observe()

    def _fail(self, error: TandemError) -> None:
        """End what was in the batch; what waits gets its chance, unless nothing could be let in."""
        for sequence in list(self._scheduler.running or self._scheduler.waiting):
            self._end(sequence, error)
        self._scheduler.forget_prefixes()

    def _end(self, sequence: Sequence, error: TandemError) -> None:
        sequence.events.put_nowait(error)
        self._retire(sequence, "error")

    def _observe(self) -> None:
        running, waiting = self.load
        metrics.RUNNING.set(running)
        metrics.WAITING.set(waiting)
        metrics.KV_FREE.set(self._scheduler.num_free_blocks)
        metrics.KV_FRAGMENTS.set(self._scheduler.num_fragments)


def _commit(sequence: Sequence, decided: Seq[int]) -> FinishReason | None:
    """Append tokens up to the first that ends the answer, and say why it ends."""
    for token_id in decided:
        sequence.tokens.append(token_id)
        reason = sequence.output.push(token_id)
        if reason is not None:
            return reason
    return None


def _note(item: Work, judged: Judged, delivered: int, shared: Pass) -> None:
    """An answer's share of a step is by its rows."""
    notes = item.sequence.notes
    notes.step(delivered, len(item.guesses), shared.seconds * item.num_rows / shared.rows)
    if notes.sampled and judged.beliefs:
        notes.score(judged.beliefs, delivered)


def _shared(work: Seq[Work], phases: Phases) -> Pass:
    seconds = phases.seconds
    rows = sum(item.num_rows for item in work)
    return Pass(seconds["wait"], seconds["model"], seconds["accept"], len(work), rows)


def _trace(
    item: Work, base_length: int, delivered: Seq[int], judged: Judged, shared: Pass
) -> TraceStep | None:
    sequence = item.sequence
    if sequence.trace is None or judged.beliefs is None:
        return None
    return sequence.trace.step(
        base_length - sequence.prompt_length,
        delivered,
        len(item.guesses),
        judged.beliefs,
        shared,
    )
