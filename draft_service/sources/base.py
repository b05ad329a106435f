"""The interface every source offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from common.draft_types import SparseDistribution
from draft_service.session import Session


@dataclass(frozen=True, slots=True)
class Guess:
    """``parents``, ``distributions``, ``sources`` and ``disagreements`` as in ``types.Block``; without
    ``distributions`` each was certain (one-hot).

    ``shown``: what was believed before each guess, where ``session.shown_temperature`` asks for it; empty:
    each was certain.
    """

    token_ids: tuple[int, ...] = ()
    distributions: tuple[SparseDistribution, ...] = ()
    confidences: tuple[float, ...] = ()
    parents: tuple[int, ...] = ()
    sources: tuple[str, ...] = ()
    shown: tuple[SparseDistribution, ...] = ()
    disagreements: tuple[float, ...] = ()


NOTHING = Guess()


class Source(Protocol):
    """Guesses for all waiting sessions at once.

    The last ``session.assumed`` tokens of a session are not committed; the next time others may stand there.
    So what a source keeps of a session goes back with its tokens, or is of its committed tokens only.
    """

    name: str

    @property
    def model_version(self) -> str: ...

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        """Up to ``session.block_size`` guesses each, no more than ``session.tree_width`` of them after the
        same text and no more than ``session.longest`` after each other; None: not ready yet, ask again, or
        where tokens are assumed: it cannot say.

        Called from one thread at a time, not the event loop's.
        """
        ...

    def close(self, session_id: str) -> None:
        """Forget a session, known or not. Never called during ``propose``."""
        ...


@runtime_checkable
class Composite(Protocol):
    """A source that asks others."""

    @property
    def sources(self) -> Sequence[Source]: ...


@runtime_checkable
class ReadsStates(Protocol):
    """A source that needs the target's hidden states of these layers, each of that size."""

    hidden_layers: tuple[int, ...]
    hidden_size: int
