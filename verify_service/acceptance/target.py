"""The target's view of a block: its distribution before every guess and after each branch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from common import sampling, trees
from common.allowed import Allowed
from common.draft_types import Block
from common.types import SamplingParams


@dataclass(frozen=True, slots=True)
class Verdict:
    """The guesses ``nodes`` stand, from the root of the block down; ``token``, the target's own, follows."""

    nodes: tuple[int, ...]
    token: int

    @property
    def accepted(self) -> int:
        return len(self.nodes)


class TargetRows:
    """Row 0 is the target's distribution after the committed tokens, row i + 1 that after guess i.

    Rows are worked out when asked for: after a rejection the rest is never looked at. So a grammar only ever
    follows guesses that stand, and fails where it would have failed without them.
    """

    def __init__(
        self,
        logits: Tensor,
        params: SamplingParams,
        committed: Sequence[int],
        prompt_length: int,
        block: Block,
        *,
        allowed: Allowed | None = None,
    ) -> None:
        """
        Args:
            logits: [guesses + 1, vocabulary].
            allowed: has followed ``committed``; None: every token may come.
        """
        self._logits = logits
        self._params = params
        self._committed = committed
        self._prompt_length = prompt_length
        self._guesses = block.token_ids
        self._tree = block.tree
        self._allowed = allowed
        self._greedy: list[int] | None = None
        self._beliefs: dict[tuple[int, float], Tensor] = {}

    def path(self, row: int) -> tuple[int, ...]:
        """The guessed tokens between the committed ones and the row's position."""
        return tuple(self._guesses[node] for node in trees.path(self._tree, row - 1))

    def position(self, row: int) -> int:
        """Where in the sequence the row's token goes."""
        return len(self._committed) + len(self.path(row))

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
        return sampling.choose(self.probabilities(row), seed, self.position(row))

    def top(self, row: int) -> int:
        """The target's likeliest token at ``row``, whatever the temperature."""
        return self._greedy_choice(row)

    def logprobs(self, row: int, temperature: float) -> Tensor:
        """float64 [vocabulary]: what the target believes at another temperature than the request's.

        Of the request's parameters those count that change single tokens: what is not allowed has -inf.
        """
        if (row, temperature) not in self._beliefs:
            self._beliefs[row, temperature] = (self._adjusted(row)[0] / temperature).log_softmax(-1)
        return self._beliefs[row, temperature]

    def belief(self, row: int) -> Tensor:
        """float64 [vocabulary]: what the row's token is drawn from; greedy: the target's at temperature 1."""
        return self.logprobs(row, 1.0).exp() if self._params.greedy else self.probabilities(row)

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
            [self.path(row)],
            allowed=self._allowed,
        )
