"""Drafts for every session that waits, in one batch: take in updates, propose, answer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor

from common import logging
from common.allowed import Allowed
from common.draft_types import Block, Close, Commit, Open, Proposed, Refused, SessionAnswer, SessionUpdate
from common.errors import InvalidRequest, Overloaded, TandemError
from common.grammar import Compiler
from draft_service import metrics
from draft_service.ahead import Question
from draft_service.publisher import Publisher
from draft_service.session import OutOfSync, Session
from draft_service.sources.base import Guess, ReadsStates, Source
from draft_service.vocabulary import Vocabulary

_QUEUED_MESSAGES = 256
_QUEUED_ANSWERS = 1024
_DRAIN_POLL_SECONDS = 0.05

log = logging.get("draft")


class Stream:
    """The answers on their way to one verify replica. One that stops reading is ended."""

    def __init__(self) -> None:
        self._answers: asyncio.Queue[list[SessionAnswer] | None] = asyncio.Queue(_QUEUED_ANSWERS)
        self.ended = False

    def put(self, answers: list[SessionAnswer]) -> None:
        if self._answers.full():
            self.end()
        elif not self.ended:
            self._answers.put_nowait(answers)

    def end(self) -> None:
        """Nothing more comes; what is queued may still be read."""
        self.ended = True
        if not self._answers.full():
            self._answers.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[list[SessionAnswer]]:
        while not (self.ended and self._answers.empty()):
            answers = await self._answers.get()
            if answers is None:
                return
            yield answers


class DraftEngine:
    """Owns every session. Updates that came while a round was drafted are taken in before the next."""

    def __init__(
        self,
        source: Source,
        vocabulary: Vocabulary,
        publisher: Publisher,
        thread: Executor,
        *,
        max_sessions: int,
        compiler: Compiler | None = None,
    ) -> None:
        """
        Args:
            thread: a pool of one, in which the source proposes.
            compiler: None: grammars are left aside.
        """
        self._source = source
        self._vocabulary = vocabulary
        self._publisher = publisher
        self._max_sessions = max_sessions
        self._sessions: dict[str, tuple[Session, Stream]] = {}
        self._streams: set[Stream] = set()
        self._changed = asyncio.Event()
        self._inbox: asyncio.Queue[tuple[Stream, Sequence[SessionUpdate]]] = asyncio.Queue(_QUEUED_MESSAGES)
        self._block_ids = itertools.count(time.time_ns())
        self._thread = thread
        self._compiler = compiler
        self._round = asyncio.Lock()
        self._compiling: set[asyncio.Task[None]] = set()

    @property
    def num_sessions(self) -> int:
        return len(self._sessions)

    @property
    def model_version(self) -> str:
        """Of what is drafting now."""
        return self._source.model_version

    async def between_rounds(self, change: Callable[[], None]) -> None:
        """Call it when the source is at rest, and no block is on its way from there to a session."""
        async with self._round:
            change()

    def connect(self) -> Stream:
        """A verify replica's stream; to be released at its end."""
        stream = Stream()
        self._streams.add(stream)
        return stream

    async def take(self, stream: Stream, updates: Sequence[SessionUpdate]) -> None:
        """Hand in one message's updates; waits while too many messages are unread."""
        await self._inbox.put((stream, updates))

    async def release(self, stream: Stream) -> None:
        """End a stream and every session on it."""
        stream.end()
        self._streams.discard(stream)
        owned = [session_id for session_id, (_, owner) in self._sessions.items() if owner is stream]
        await self._inbox.put((stream, [Close(session_id) for session_id in owned]))

    async def drain(self, timeout_seconds: float) -> None:
        """Wait until every session is closed, or the timeout; then end the streams."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while self._sessions:
                    self._changed.clear()
                    await self._changed.wait()
        for stream in self._streams:
            stream.end()

    async def run(self) -> None:
        """Draft until cancelled. A source that fails costs its round, not the service."""
        while True:
            if not self._waiting() and not self._going_ahead():
                self._apply(*await self._inbox.get())
            while not self._inbox.empty():
                self._apply(*self._inbox.get_nowait())
            async with self._round:
                if waiting := self._waiting():
                    await self._serve(waiting)
                elif asked := self._going_ahead():
                    await self._go_ahead(asked)

    def _waiting(self) -> list[Session]:
        return [session for session, _ in self._sessions.values() if session.block_size]

    def _going_ahead(self) -> list[tuple[Session, Question]]:
        questions = ((session, session.ahead.question()) for session, _ in self._sessions.values())
        return [(session, question) for session, question in questions if question]

    async def _serve(self, sessions: list[Session]) -> None:
        try:
            guesses, seconds = await self._propose(sessions)
        except Exception:
            log.exception("a drafting round failed")
            guesses, seconds = [Guess()] * len(sessions), 0.0
        else:
            metrics.ROUND_SESSIONS.observe(len(sessions))
            metrics.ROUND_SECONDS.observe(seconds)
        self._answer_all(sessions, guesses, seconds)

    async def _go_ahead(self, asked: list[tuple[Session, Question]]) -> None:
        """One question of every session that may go ahead, while nobody waits."""
        sessions = [session for session, _ in asked]
        with contextlib.ExitStack() as assuming:
            for session, question in asked:
                assuming.enter_context(session.assuming(question))
            try:
                guesses, seconds = await self._propose(sessions)
            except Exception:
                log.exception("drafting ahead failed")
                guesses, seconds = [None] * len(sessions), 0.0
            made = [
                None if guess is None else self._made(session, guess, seconds)
                for session, guess in zip(sessions, guesses, strict=True)
            ]
        for session, block in zip(sessions, made, strict=True):
            if session.ahead.answered(block) and block:
                session.remember(block.block_id, block.token_ids, block.parents)
                metrics.AHEAD.inc()
                self._stream_of(session).put([Proposed(session.session_id, block)])

    async def _propose(self, sessions: list[Session]) -> tuple[list[Guess | None], float]:
        """With the seconds it took."""
        started = time.perf_counter()
        loop = asyncio.get_running_loop()
        guesses = await loop.run_in_executor(self._thread, self._source.propose, sessions)
        if len(guesses) != len(sessions):
            raise ValueError(f"{len(guesses)} guesses for {len(sessions)} sessions")
        return guesses, time.perf_counter() - started

    def _answer_all(self, sessions: list[Session], guesses: Sequence[Guess | None], seconds: float) -> None:
        """One message per stream; sessions not ready stay waiting."""
        outgoing: dict[Stream, list[SessionAnswer]] = {}
        published = []
        for session, guess in zip(sessions, guesses, strict=True):
            if guess is None:
                continue
            block = self._made(session, guess, seconds)
            self._answered(session, block)
            outgoing.setdefault(self._stream_of(session), []).append(Proposed(session.session_id, block))
            if session.publish and block.token_ids:
                published.append((session, block))
        for stream, answers in outgoing.items():
            stream.put(answers)
        for session, block in published:
            self._publisher.publish(session, block)

    def _answered(self, session: Session, block: Block) -> None:
        session.block_size = 0
        session.remember(block.block_id, block.token_ids, block.parents)
        session.ahead.judged(block)

    def _made(self, session: Session, guess: Guess, seconds: float) -> Block:
        metrics.PROPOSED_TOKENS.inc(len(guess.token_ids))
        return Block(
            block_id=next(self._block_ids),
            base_length=len(session.tokens),
            token_ids=guess.token_ids,
            parents=guess.parents,
            distributions=guess.distributions or guess.shown,
            confidences=guess.confidences,
            source=self._source.name,
            model_version=self._source.model_version,
            drafting_seconds=seconds,
            sources=guess.sources,
            disagreements=guess.disagreements,
            assumed=tuple(session.tokens[session.num_committed :]),
        )

    def _stream_of(self, session: Session) -> Stream:
        return self._sessions[session.session_id][1]

    def _apply(self, stream: Stream, updates: Sequence[SessionUpdate]) -> None:
        for update in updates:
            try:
                self._apply_one(stream, update)
            except TandemError as error:
                self._refuse(stream, update.session_id, error.code, error.message)
            except OutOfSync as error:
                self._refuse(stream, update.session_id, "out_of_sync", str(error))
        self._changed.set()
        metrics.SESSIONS.set(len(self._sessions))

    def _apply_one(self, stream: Stream, update: SessionUpdate) -> None:
        match update:
            case Open():
                if not stream.ended:
                    self._open(stream, update)
            case Commit():
                session = self._owned(stream, update.session_id)
                self._vocabulary.check_commit(update)
                session.commit(update)
                self._answer_from(session, stream)
            case Close():
                owned = self._sessions.get(update.session_id)
                if owned and owned[1] is stream and owned[0].publish:
                    self._publisher.publish_last(owned[0])
                self._close(stream, update.session_id)

    def _answer_from(self, session: Session, stream: Stream) -> None:
        """Send what was prepared for this commit, where that is asked for; it may be on its way already."""
        if session.ready is None:
            return
        block = session.ready.block.prefix(session.block_size)
        session.ready, session.block_size = None, 0
        stream.put([Proposed(session.session_id, block)])

    def _open(self, stream: Stream, update: Open) -> None:
        self._forget(update.session_id)
        self._vocabulary.check_open(update)
        _check_states(self._source, update)
        if len(self._sessions) >= self._max_sessions:
            raise Overloaded(f"{self._max_sessions} sessions are open already")
        session = Session.opened(update)
        self._sessions[update.session_id] = (session, stream)
        if update.grammar and self._compiler:
            compiling = asyncio.create_task(self._constrain(session, update, self._compiler))
            self._compiling.add(compiling)
            compiling.add_done_callback(self._compiling.discard)

    async def _constrain(self, session: Session, update: Open, compiler: Compiler) -> None:
        """Give the session its grammar when it is compiled; guesses made before that only lack it."""
        try:
            matcher = await asyncio.to_thread(compiler.matcher, update.grammar, "grammar")
        except InvalidRequest as error:
            log.warning("a grammar is left aside", reason=error.message)
        else:
            session.allowed = Allowed(update.vocabulary_size, update.held_tokens, matcher)

    def _owned(self, stream: Stream, session_id: str) -> Session:
        session, owner = self._sessions.get(session_id, (None, None))
        if session is None or owner is not stream:
            raise OutOfSync("no such session on this stream")
        return session

    def _refuse(self, stream: Stream, session_id: str, code: str, message: str) -> None:
        metrics.REFUSED.labels(code).inc()
        log.warning("session refused", code=code, reason=message)
        self._close(stream, session_id)
        stream.put([Refused(session_id, code, message)])

    def _close(self, stream: Stream, session_id: str) -> None:
        """Forget a session, if it has not moved to another stream."""
        owned = self._sessions.get(session_id)
        if owned and owned[1] is stream:
            self._forget(session_id)

    def _forget(self, session_id: str) -> None:
        if self._sessions.pop(session_id, None):
            self._source.close(session_id)


def _check_states(source: Source, update: Open) -> None:
    """Raises InvalidRequest where the source needs hidden states that will not come."""
    if not isinstance(source, ReadsStates):
        return
    missing = set(source.hidden_layers) - set(update.hidden_layers)
    if missing or update.hidden_size != source.hidden_size:
        raise InvalidRequest(
            f"this draft reads hidden states of layers {list(source.hidden_layers)}, {source.hidden_size} "
            f"wide; the target sends {list(update.hidden_layers)}, {update.hidden_size} wide: "
            "see TANDEM_VERIFY_HIDDEN_LAYERS",
            field="hidden_layers",
        )
