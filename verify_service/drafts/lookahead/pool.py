"""N-grams by their first token."""

from __future__ import annotations

from collections.abc import Sequence

from verify_service.drafts.lookahead.window import Ngram


class Pool:
    """The latest n-grams: at most ``per_token`` that begin alike, and at most ``most`` in all."""

    def __init__(self, per_token: int = 8, most: int = 4096) -> None:
        self._per_token = per_token
        self._most = most
        self._size = 0
        self._followers: dict[int, dict[Ngram, None]] = {}  # both in the order in which they were last added

    def __len__(self) -> int:
        return self._size

    def add(self, ngram: Sequence[int]) -> None:
        first, rest = ngram[0], tuple(ngram[1:])
        known = self._followers.pop(first, {})
        self._size += rest not in known
        known.pop(rest, None)
        known[rest] = None
        self._followers[first] = known
        if len(known) > self._per_token:
            self._drop(first)
        elif self._size > self._most:
            self._drop(next(iter(self._followers)))

    def after(self, token_id: int) -> list[Ngram]:
        """What followed a token in n-grams that begin with it, the latest first."""
        return list(reversed(self._followers.get(token_id, {})))

    def _drop(self, first: int) -> None:
        """The oldest n-gram of those that begin with ``first``."""
        known = self._followers[first]
        del known[next(iter(known))]
        self._size -= 1
        if not known:
            del self._followers[first]
