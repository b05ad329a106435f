"""The target's view of a block: its distribution at every drafted position and one beyond."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from common import sampling
from common.allowed import Allowed
from common.types import SamplingParams


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first ``accepted`` guesses stand; ``token`` is the target's own, right after them."""

    accepted: int
    token: int


class TargetRows:
    """Row i is the target's distribution after the committed tokens and the first i guesses.

    Rows are worked out when asked for: after a rejection the rest is never looked at. So a grammar only ever
    follows guesses that stand, and fails where it would have failed without them.
    """

    def __init__(
        self,
        logits: Tensor,
        params: SamplingParams,
        committed: Sequence[int],
        prompt_length: int,
        guesses: Sequence[int],
        *,
        allowed: Allowed | None = None,
    ) -> None:
        """
        Args:
            logits: [len(guesses) + 1, vocabulary].
            allowed: has followed ``committed``; None: every token may come.
        """
        self._logits = logits
        self._params = params
        self._committed = committed
        self._prompt_length = prompt_length
        self._guesses = guesses
        self._allowed = allowed
        self._greedy: list[int] | None = None

    @property
    def position(self) -> int:
        """Where in the sequence row 0's token goes."""
        return len(self._committed)

    @property
    def greedy(self) -> bool:
        return self._params.greedy

    def probabilities(self, row: int) -> Tensor:
        """float64 [vocabulary]."""
        return sampling.probabilities(self._adjusted(row), self._params)[0]

    def choice(self, row: int, seed: int) -> int:
        """The target's own token at ``row`` under the noise of ``seed``."""
        if self._params.greedy:
            return self._greedy_choice(row)
        return sampling.choose(self.probabilities(row), seed, self.position + row)

    def _greedy_choice(self, row: int) -> int:
        if not sampling.changes_nothing(self._params, self._allowed):
            return int(self._adjusted(row)[0].argmax())
        if self._greedy is None:
            self._greedy = self._logits.argmax(-1).tolist()
        return self._greedy[row]

    def _adjusted(self, row: int) -> Tensor:
        return sampling.adjust(
            self._logits[row : row + 1],
            self._params,
            self._committed,
            self._prompt_length,
            [self._guesses[:row]],
            allowed=self._allowed,
        )
