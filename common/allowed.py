"""Which tokens may come next, at every position of a block and on every branch of a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

FOR_EVER = (1 << 32) - 1


class Grammar(Protocol):
    """``common.grammar.Matcher``; a test has a plainer one."""

    text: str

    def commit(self, token_ids: Sequence[int]) -> None: ...
    def allowed_length(self, path: Sequence[int]) -> int: ...
    def mask_after(self, path: Sequence[int]) -> NDArray[Any]: ...


class Allowed:
    """What a grammar and a minimum length leave of the vocabulary, for one sequence. Target and draft each
    keep one, so that q is masked as p is. Used by one thread at a time.

    A grammar that leaves nothing but tokens held back has come to its end, and then so does the answer.
    """

    def __init__(
        self, vocabulary_size: int, held_tokens: Mapping[int, int], grammar: Grammar | None = None
    ) -> None:
        """``held_tokens``: for a token the number of output tokens that must come before it."""
        self._vocabulary_size = vocabulary_size
        self.held_tokens = dict(held_tokens)
        self._longest_hold = max(held_tokens.values(), default=0)
        self._grammar = grammar
        self._count = 0

    @property
    def grammar(self) -> str:
        """In llguidance's form; empty: none."""
        return self._grammar.text if self._grammar else ""

    def follow(self, tokens: Sequence[int], prompt_length: int) -> None:
        """Catch up with the committed tokens, of which none is ever taken back.

        Raises:
            InvalidRequest: where the grammar forbids them, or takes more than its limits.
        """
        new = tokens[prompt_length + self._count :]
        if new and self._grammar:
            self._grammar.commit(new)
        self._count += len(new)

    def mask_after(self, path: Sequence[int]) -> Tensor | None:
        """bool [vocabulary]: what may follow the committed tokens and the guesses of ``path``; None: all.

        Nothing may follow a path that is itself forbidden.

        Raises:
            InvalidRequest: when the grammar takes more than its limits here.
        """
        length = self._count + len(path)
        if self._grammar is None:
            return self._free(length) if length < self._longest_hold else None
        allowed = torch.from_numpy(self._grammar.mask_after(path))
        if length < self._longest_hold:
            going_on = allowed & self._free(length)
            return going_on if bool(going_on.any()) else allowed
        return allowed

    def allowed_length(self, path: Sequence[int]) -> int:
        """How many of the guesses are sure to be allowed, one after the other."""
        length = self._grammar.allowed_length(path) if self._grammar else len(path)
        held = (i for i in range(length) if self._count + i < self.held_tokens.get(path[i], 0))
        return next(held, length)

    def _free(self, length: int) -> Tensor:
        """Tokens not held back after ``length`` output tokens."""
        free = torch.ones(self._vocabulary_size, dtype=torch.bool)
        free[[token_id for token_id, until in self.held_tokens.items() if length < until]] = False
        return free
