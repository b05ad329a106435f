"""Lookahead decoding inside the verify service: windows beside the guesses of a pass, while they pay."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq

from verify_service.drafts.control.trial import Trial
from verify_service.drafts.link import DraftLink, Link
from verify_service.drafts.lookahead.link import ENDPOINT, LookaheadLink
from verify_service.drafts.lookahead.window import Rows
from verify_service.sequence import Sequence

_WITH_WINDOWS = 1


class Lookahead:
    """Says which rows look ahead in a pass, and takes in what the target said after them.

    The controller judges the guesses, as those of any draft. Whether it pays to look ahead for them shows in
    tokens per second alone: in one way of working there are no windows, only what the text itself repeats, in
    the other there are. Rows cost more in a large batch, so batches of different sizes, up to a power of two,
    are tried apart.
    """

    def __init__(self, width: int, ngram: int, make_trial: Callable[[], Trial] = lambda: Trial(2)) -> None:
        """
        Args:
            width: columns of a window.
            ngram: tokens of an n-gram, 3 or more; a window has one row less than ``width * (ngram - 1)``.
        """
        self.link = LookaheadLink(width, ngram)
        self._make_trial = make_trial
        self._trials: dict[int, Trial] = {}

    def make_link(self, address: str) -> Link:
        """A stream to a draft replica, or what stands in for one here."""
        return self.link if address == ENDPOINT.address else DraftLink(address)

    def pays(self, batch: int) -> bool:
        """Whether the next pass of so many sequences looks ahead."""
        return self._trial(batch).way == _WITH_WINDOWS

    def rows(self, sequence: Sequence) -> Rows | None:
        """The sequence's window; None where nobody looks ahead for it, or its answer ends too soon."""
        session = self.link.sessions.get(sequence.session_id)
        if session is None:
            return None
        rows = session.rows
        return rows if rows.depth < sequence.num_left else None

    def learn(self, sequence: Sequence, last: int, said: Seq[int]) -> None:
        """What the target said after the ``asked`` rows of the sequence's window, below token ``last``."""
        session = self.link.sessions.get(sequence.session_id)
        if session is not None:
            session.learn(last, said)

    def observe_step(self, batch: int, tokens: int, seconds: float) -> None:
        """A step without prefill made so many tokens of so many sequences."""
        if self.link.sessions:
            self._trial(batch).observe(tokens, seconds)

    def _trial(self, batch: int) -> Trial:
        size = batch.bit_length()
        if size not in self._trials:
            self._trials[size] = self._make_trial()
        return self._trials[size]
