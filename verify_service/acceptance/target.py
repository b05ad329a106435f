"""The target's view of a block: its distribution at every drafted position and one beyond."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from common import sampling
from common.types import SamplingParams


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first ``accepted`` guesses stand; ``token`` is the target's own, right after them."""

    accepted: int
    token: int


class TargetRows:
    """Row i is the target's distribution after the committed tokens and the first i guesses.

    Rows are worked out when asked for: after a rejection the rest is never looked at.
    """

    def __init__(
        self,
        logits: Tensor,
        params: SamplingParams,
        committed: Sequence[int],
        prompt_length: int,
        guesses: Sequence[int],
    ) -> None:
        """``logits``: [len(guesses) + 1, vocabulary]."""
        self._logits = logits
        self._params = params
        self._committed = committed
        self._prompt_length = prompt_length
        self._guesses = guesses

    @property
    def position(self) -> int:
        """Where in the sequence row 0's token goes."""
        return len(self._committed)

    def probabilities(self, row: int) -> Tensor:
        """float64 [vocabulary]."""
        return sampling.probabilities(self._adjusted(row), self._params)[0]

    def choice(self, row: int, seed: int) -> int:
        """The target's own token at ``row`` under the noise of ``seed``."""
        if self._params.greedy:
            return int(self._adjusted(row)[0].argmax())
        return sampling.choose(self.probabilities(row), seed, self.position + row)

    def _adjusted(self, row: int) -> Tensor:
        return sampling.adjust(
            self._logits[row : row + 1],
            self._params,
            self._committed,
            self._prompt_length,
            [self._guesses[:row]],
        )
