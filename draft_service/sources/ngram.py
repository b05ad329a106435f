"""Prompt lookup: what followed the last few tokens when they occurred before."""

from __future__ import annotations

from collections.abc import Sequence

from draft_service.session import Session
from draft_service.sources.base import NOTHING, Guess


class NgramSource:
    """The continuation of the latest earlier occurrence of the longest matching tail (Saxena 2023).

    The match may run into the guesses themselves, so a repetition is continued for a whole block.
    """

    name = "ngram"
    model_version = "1"

    def __init__(self, longest: int, shortest: int) -> None:
        self._lengths = range(longest, shortest - 1, -1)
        self._indexes: dict[str, _Index] = {}

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        return [self._guess(session) for session in sessions]

    def close(self, session_id: str) -> None:
        self._indexes.pop(session_id, None)

    def _guess(self, session: Session) -> Guess:
        index = self._indexes.setdefault(session.session_id, _Index(self._lengths))
        index.extend(session.tokens)
        start = index.find(session.tokens)
        if start is None:
            return NOTHING
        text = list(session.tokens)
        for offset in range(session.block_size):
            text.append(text[start + offset])
        guesses = text[len(session.tokens) :]
        return Guess(tuple(guesses[: session.allowed_length(guesses)]))


class _Index:
    """Where each n-gram of the committed tokens was last followed by something."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths = lengths
        self._follows: dict[tuple[int, ...], int] = {}
        self._indexed = 0

    def extend(self, tokens: Sequence[int]) -> None:
        """Committed tokens are never taken back, so only the new ones are read."""
        for position in range(self._indexed, len(tokens)):
            for length in self._lengths:
                if length <= position:
                    self._follows[tuple(tokens[position - length : position])] = position
        self._indexed = len(tokens)

    def find(self, tokens: Sequence[int]) -> int | None:
        """The position after the latest match of the longest tail."""
        for length in self._lengths:
            position = self._follows.get(tuple(tokens[-length:])) if length <= len(tokens) else None
            if position is not None:
                return position
        return None
