"""Prompt lookup: what followed the last few tokens when they occurred before."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from draft_service.config import Config
from draft_service.session import Session
from draft_service.sources.base import NOTHING, Guess
from draft_service.sources.continuations import Trie

_MOST_MATCHES = 8
_LENGTH_WEIGHT = 4.0  # what one more token of agreement counts
_GOES_ON = 0.8  # belief that a continuation which was right so far is right once more


def make(config: Config, folder: str) -> NgramSource:
    return NgramSource(config.max_ngram, config.min_ngram)


class NgramSource:
    """The continuation of the latest earlier occurrence of the longest matching tail (Saxena 2023).

    The match may run into the guesses themselves, so a repetition is continued for a whole block. Where a
    tree is wanted, the continuations of several occurrences share it.
    """

    name = "ngram"
    model_version = "2"

    def __init__(self, longest: int, shortest: int) -> None:
        self._lengths = range(longest, shortest - 1, -1)
        self._indexes: dict[str, _Index] = {}

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        return [self._guess(session) for session in sessions]

    def close(self, session_id: str) -> None:
        self._indexes.pop(session_id, None)

    def _guess(self, session: Session) -> Guess:
        index = self._indexes.setdefault(session.session_id, _Index(self._lengths))
        index.extend(session.tokens[: session.num_committed])
        wanted = _MOST_MATCHES if session.tree_width > 1 else 1
        matches = list(itertools.islice(index.find(session.tokens), wanted))
        if not matches:
            return NOTHING
        trie = Trie()
        for start, length in matches:
            weight = _LENGTH_WEIGHT ** (length - matches[0][1])
            guesses = _continuation(session.tokens, start, session.longest)
            trie.add(guesses[: session.allowed_length(guesses)], weight)
        best = trie.best(session.block_size, session.tree_width, _GOES_ON)
        return replace(best, confidences=())  # eight occurrences at most are no frequencies


def _continuation(tokens: Sequence[int], start: int, count: int) -> list[int]:
    text = list(tokens)
    for offset in range(count):
        text.append(text[start + offset])
    return text[len(tokens) :]


class _Index:
    """Where each n-gram of the committed tokens was lately followed by something."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths = lengths
        self._follows: dict[tuple[int, ...], list[int]] = {}
        self._indexed = 0

    def extend(self, tokens: Sequence[int]) -> None:
        """Committed tokens are never taken back, so only the new ones are read."""
        for position in range(self._indexed, len(tokens)):
            for length in self._lengths:
                if length <= position:
                    ngram = tuple(tokens[position - length : position])
                    positions = self._follows.setdefault(ngram, [])
                    positions.append(position)
                    del positions[:-_MOST_MATCHES]
        self._indexed = len(tokens)

    def find(self, tokens: Sequence[int]) -> Iterator[tuple[int, int]]:
        """The positions after matches of the tail, with its length: the longest first, then the latest."""
        seen = set()
        for length in self._lengths:
            if length <= len(tokens):
                for position in reversed(self._follows.get(tuple(tokens[-length:]), ())):
                    if position not in seen:
                        seen.add(position)
                        yield position, length
