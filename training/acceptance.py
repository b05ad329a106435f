"""How much of what a head would have drafted the target would have taken, on answers not trained on."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from draft_service.heads.files import Head
from draft_service.heads.target import TargetParts
from training.answers import Answers
from training.rollout import roll_out, targets_of
from training.states import States
from training.windows import Batch, whole_rows

_ROWS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Acceptance:
    """
    Attributes:
        reached: of chains begun anywhere, how many were right up to and with each guess.
        tokens_per_step: of answers drafted from their first token to their last, the target's own included.
        positions: chains.
    """

    reached: tuple[float, ...]
    tokens_per_step: float
    positions: int

    @property
    def rate(self) -> float:
        """Of all guesses of whole chains the part that stands."""
        return self.mean_length / len(self.reached)

    @property
    def mean_length(self) -> float:
        """Guesses of a chain that stand."""
        return sum(self.reached)

    def numbers(self) -> dict[str, float]:
        reached = {f"reached_{depth + 1}": share for depth, share in enumerate(self.reached)}
        return {"tokens_per_step": self.tokens_per_step, "mean_length": self.mean_length, **reached}


def greedy_rows(answers: Answers, most: int) -> list[int]:
    """The first ``most`` greedy answers held out: there the target's choice is the answer's token."""
    rows = (row for row in np.flatnonzero(answers.held).tolist() if answers.temperatures[row] == 0)
    return list(itertools.islice(rows, most))


class Examiner:
    """Greedy chains at every position of some answers.

    A guess only counts after right ones, so what a head is shown of the answer is what it guessed itself.
    """

    def __init__(
        self, answers: Answers, states: States, vocabulary: Tensor, *, length: int, rows: list[int]
    ) -> None:
        self._batches = [
            whole_rows(answers, states, rows[start : start + _ROWS_AT_ONCE])
            for start in range(0, len(rows), _ROWS_AT_ONCE)
        ]
        self._vocabulary = vocabulary
        self._length = length

    @torch.inference_mode()
    def examine(self, head: Head, parts: TargetParts) -> Acceptance:
        lengths: list[Tensor] = []
        for batch in self._batches:
            lengths += self._lengths(head, parts, batch)
        every = torch.cat(lengths) if lengths else torch.zeros(0)
        reached = [float((every > depth).float().mean()) for depth in range(self._length)]
        steps = sum(_steps(own) for own in lengths)
        tokens = sum(len(own) for own in lengths)
        return Acceptance(tuple(reached), tokens / max(steps, 1), len(every))

    def _lengths(self, head: Head, parts: TargetParts, batch: Batch) -> list[Tensor]:
        """For each answer, how many guesses stand after each of its tokens."""
        right = []
        with torch.autocast("cpu", torch.bfloat16, enabled=parts.head.dtype == torch.bfloat16):
            guesses = roll_out(head, parts, batch, self._length)
        for step, made in enumerate(guesses):
            chosen = self._vocabulary[(made.to(parts.head.dtype) @ parts.head.T).argmax(-1)]
            first = 2 + step  # a guess at a feature is a guess at the token after it
            expected = batch.tokens[:, first : first + chosen.shape[1]]
            chosen = chosen[:, : expected.shape[1]]
            right.append(torch.nn.functional.pad(chosen == expected, (0, made.shape[1] - expected.shape[1])))
        stand = torch.stack(right).cumprod(0).sum(0)
        _, weights = targets_of(batch, 0, self._length)
        return [own[counts > 0] for own, counts in zip(stand, weights, strict=True)]


def _steps(stand: Tensor) -> int:
    """Steps of the target that write an answer whose positions let that many guesses stand."""
    steps = position = 0
    while position < len(stand):
        position += int(stand[position]) + 1
        steps += 1
    return steps
