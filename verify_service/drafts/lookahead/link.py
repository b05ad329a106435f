"""The source ``lookahead`` in place of a stream to a draft replica: it answers at once, in this process."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from common.draft_types import Block, Close, Commit, Open, Proposed, SessionUpdate
from common.types import DraftEndpoint
from verify_service.drafts.breaker import WaitBreaker
from verify_service.drafts.link import OnAnswers, OnLost
from verify_service.drafts.lookahead.guessing import guess
from verify_service.drafts.lookahead.pool import Pool
from verify_service.drafts.lookahead.window import Rows, Window

ENDPOINT = DraftEndpoint("lookahead", "lookahead")
_TEXT = 2048  # tokens of a prompt whose n-grams are taken: reading them holds the event loop up


class LookaheadSession:
    """The n-grams of one text: its own, and those that its window has found."""

    def __init__(self, opened: Open, width: int, ngram: int) -> None:
        self.tokens = list(opened.token_ids)
        self._width = opened.tree_width
        self._ngram = ngram
        self._pool = Pool()
        self._window = Window(width, ngram, filling=self.tokens[::-1])
        self._block = Block(0, 0, ())
        self._read(max(0, len(self.tokens) - _TEXT))

    @property
    def rows(self) -> Rows:
        return self._window.rows

    def learn(self, last: int, said: Sequence[int]) -> None:
        """What the target said after the window's newest level, below the committed token ``last``."""
        for ngram in self._window.advance(last, said):
            self._pool.add(ngram)

    def follow(self, commit: Commit) -> None:
        accepted = [self._block.token_ids[node] for node in commit.accepted_nodes]
        before = len(self.tokens)
        self.tokens += [*accepted, *commit.token_ids]
        self._width = commit.tree_width or self._width
        self._read(max(0, before - self._ngram + 1))

    def guess(self, block_id: int, size: int) -> Block:
        tree = guess(self._pool, self.tokens[-1], size, self._width)
        self._block = Block(block_id, len(self.tokens), tuple(tree.token_ids), tuple(tree.parents))
        return self._block

    def _read(self, start: int) -> None:
        """Take the text's n-grams from ``start`` on."""
        for place in range(start, len(self.tokens) - self._ngram + 1):
            self._pool.add(self.tokens[place : place + self._ngram])


class LookaheadLink:
    """A ``Link`` whose sessions the hub opens, asks and closes as those of any draft.

    The guesses depend on committed text and on what the target finds likeliest, never on the noise that
    judges them. So under rejection sampling they are one-hot guesses, exact for any text.
    """

    def __init__(self, width: int, ngram: int) -> None:
        self.breaker = WaitBreaker()
        self.up = True
        self.sessions: dict[str, LookaheadSession] = {}
        self._width = width
        self._ngram = ngram
        self._block_ids = itertools.count(1)

    def start(self, on_answers: OnAnswers, on_lost: OnLost) -> None:
        self._on_answers = on_answers

    def send(self, update: SessionUpdate) -> None:
        match update:
            case Open():
                self.sessions[update.session_id] = LookaheadSession(update, self._width, self._ngram)
                self._answer(update.session_id, update.block_size)
            case Commit():
                self.sessions[update.session_id].follow(update)
                self._answer(update.session_id, update.block_size)
            case Close():
                self.sessions.pop(update.session_id, None)

    async def close(self) -> None:
        self.sessions.clear()

    def _answer(self, session_id: str, size: int) -> None:
        if size:
            block = self.sessions[session_id].guess(next(self._block_ids), size)
            self._on_answers([Proposed(session_id, block)])
