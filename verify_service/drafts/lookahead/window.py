"""The tokens that a pass looks ahead at, each level of them a Jacobi iterate of the one before."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from common import trees

Ngram = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a pass that are not judged: a tree below the last committed token, as ``Block`` has it.

    ``asked``: of how many of them, the last, it is wanted what the target would say next.
    """

    token_ids: tuple[int, ...]
    parents: tuple[int, ...]
    asked: int

    @property
    def depth(self) -> int:
        return 1 + max(trees.depths(self.parents))


class Window:
    """The lookahead branch of Fu et al. 2024, "Break the Sequential Dependency of LLM Inference Using
    Lookahead Decoding", section 3.1.

    It has W columns and N - 1 levels. The oldest level begins with the last committed token and is a chain;
    it counts from there, so token i of level j stands i + j places on. That token sees the oldest level up to
    its column, and its column. What the target says after the newest level is the next level: each column
    with its new token is an n-gram of the target's, the oldest level goes, and the window is one place on.
    """

    def __init__(self, width: int, ngram: int, filling: Sequence[int]) -> None:
        """
        Args:
            width: W.
            ngram: N, 3 or more.
            filling: tokens to begin with, one or more; any will do, no n-gram has them.
        """
        assert ngram > 2
        tokens = itertools.cycle(filling)
        self._oldest = tuple(itertools.islice(tokens, width - 1))
        self._levels = [tuple(itertools.islice(tokens, width)) for _ in range(ngram - 2)]
        self._fillings = ngram - 1  # levels that no target has said

    @property
    def rows(self) -> Rows:
        """All but the last committed token."""
        width = len(self._levels[0])
        return Rows(
            token_ids=(*self._oldest, *itertools.chain.from_iterable(self._levels)),
            # A token of the second level follows one of the oldest, of which the root is the first.
            parents=(*trees.chain(width - 1), *range(-1, width * (len(self._levels) - 1) + width - 1)),
            asked=width,
        )

    def advance(self, last: int, said: Sequence[int]) -> list[Ngram]:
        """Go on with what the target said after the newest level, ``last`` being the last committed token at
        that time; the n-grams that this completes."""
        columns = list(zip((last, *self._oldest), *self._levels, said, strict=True))
        self._oldest = self._levels[0][1:]
        self._levels = [*self._levels[1:], tuple(said)]
        if self._fillings:
            self._fillings -= 1
            return []
        return columns
