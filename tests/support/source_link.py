"""A real draft source behind the hub's ``Link``, in this process: it answers at once, always the same.

What it may draft ahead it has drafted before the answer is read.
"""

from __future__ import annotations

import itertools

from common.draft_types import Block, Close, Commit, Open, Proposed, SessionUpdate
from draft_service.session import Session
from draft_service.sources.base import Guess, Source
from verify_service.drafts.breaker import WaitBreaker
from verify_service.drafts.link import OnAnswers, OnLost


class SourceLink:
    """One session per round, as it comes."""

    up = True

    def __init__(self, source: Source) -> None:
        self.breaker = WaitBreaker()
        self._source = source
        self._sessions: dict[str, Session] = {}
        self._block_ids = itertools.count(1)

    def start(self, on_answers: OnAnswers, on_lost: OnLost) -> None:
        self._on_answers = on_answers

    async def close(self) -> None:
        return

    def send(self, update: SessionUpdate) -> None:
        match update:
            case Open():
                self._sessions[update.session_id] = Session.opened(update)
                self._answer(update.session_id)
            case Commit():
                self._sessions[update.session_id].commit(update)
                self._answer(update.session_id)
            case Close():
                self._source.close(update.session_id)
                self._sessions.pop(update.session_id, None)

    def _answer(self, session_id: str) -> None:
        session = self._sessions[session_id]
        if session.block_size:
            guess = None
            while guess is None:  # a long prompt takes it a few rounds
                (guess,) = self._source.propose([session])
            block = self._made(session, guess)
            self._send(session, block)
            session.ahead.judged(block)
        while question := session.ahead.question():
            with session.assuming(question):
                (guess,) = self._source.propose([session])
                made = None if guess is None else self._made(session, guess)
            if session.ahead.answered(made) and made:
                self._send(session, made)

    def _made(self, session: Session, guess: Guess) -> Block:
        return Block(
            next(self._block_ids),
            len(session.tokens),
            guess.token_ids,
            parents=guess.parents,
            distributions=guess.distributions,
            confidences=guess.confidences,
            assumed=tuple(session.tokens[session.num_committed :]),
        )

    def _send(self, session: Session, block: Block) -> None:
        session.remember(block.block_id, block.token_ids, block.parents)
        self._on_answers([Proposed(session.session_id, block)])
