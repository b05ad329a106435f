"""Windows of the answers, one row after another without a gap, as batches to train on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.answers import Answers
from training.states import States


@dataclass(frozen=True, slots=True)
class Batch:
    """
    Attributes:
        tokens: int64 [windows, length].
        hidden: bfloat16 [windows, length, layers * hidden].
        rows: int64 [windows, length], which answer each token is of; -1: of none.
        weights: float32 [windows, length], what the target's distribution after each token counts.
        likeliest, probabilities: [windows, length, k], of that distribution.
    """

    tokens: Tensor
    hidden: Tensor
    rows: Tensor
    weights: Tensor
    likeliest: Tensor
    probabilities: Tensor


class Windows:
    """Every epoch cuts the same text at other places and shuffles the pieces, by seed and epoch alone."""

    def __init__(
        self, answers: Answers, states: States, *, length: int, batch: int, prompt_weight: float, seed: int
    ) -> None:
        """
        Args:
            length: tokens of a window.
            batch: windows of a batch.
            prompt_weight: what a token of a prompt counts; one of an answer counts 1.
        """
        self._answers = answers
        self._states = states
        self._length = length
        self._batch = batch
        self._seed = seed
        lengths = np.diff(answers.offsets)
        self._rows = np.repeat(np.arange(len(answers)), lengths)
        self._weights = _weights(answers, self._rows, prompt_weight)

    @property
    def batches_per_epoch(self) -> int:
        """The same in every epoch."""
        return max((int(self._answers.offsets[-1]) // self._length - 1) // self._batch, 1)

    def batch(self, step: int) -> Batch:
        epoch, index = divmod(step, self.batches_per_epoch)
        starts = self._starts(epoch)
        return self._cut(starts[index * self._batch : (index + 1) * self._batch])

    def _starts(self, epoch: int) -> NDArray[np.int64]:
        random = np.random.default_rng((self._seed, epoch))
        phase = int(random.integers(self._length))
        last = int(self._answers.offsets[-1]) - self._length
        return random.permutation(np.arange(phase, max(last, phase) + 1, self._length))

    def _cut(self, starts: Sequence[int] | NDArray[np.int64]) -> Batch:
        pieces = [slice(int(start), int(start) + self._length) for start in starts]

        def stacked(array: NDArray[np.generic], dtype: type[np.generic]) -> Tensor:
            return torch.from_numpy(np.stack([array[piece] for piece in pieces]).astype(dtype))

        return Batch(
            tokens=stacked(self._answers.tokens, np.int64),
            hidden=torch.stack([self._states.hidden_at(piece) for piece in pieces]),
            rows=stacked(self._rows, np.int64),
            weights=stacked(self._weights, np.float32),
            likeliest=stacked(self._states.likeliest, np.int64),
            probabilities=stacked(self._states.probabilities, np.float32),
        )


def whole_rows(answers: Answers, states: States, rows: Sequence[int]) -> Batch:
    """Whole answers beside each other, filled up at their ends."""
    slices = [slice(int(answers.offsets[row]), int(answers.offsets[row + 1])) for row in rows]

    def padded(parts: Sequence[Tensor], value: float = 0) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True, padding_value=value)

    def numbers(array: NDArray[np.generic], dtype: type[np.generic]) -> Tensor:
        return padded([torch.from_numpy(array[piece].astype(dtype)) for piece in slices])

    lengths = [piece.stop - piece.start for piece in slices]
    answered = [
        (torch.arange(length) >= answers.prompt_lengths[row] - 1).float()
        for row, length in zip(rows, lengths, strict=True)
    ]
    return Batch(
        tokens=numbers(answers.tokens, np.int64),
        hidden=padded([states.hidden_at(piece) for piece in slices]),
        rows=padded([torch.full((length,), row) for row, length in zip(rows, lengths, strict=True)], -1),
        weights=padded(answered),
        likeliest=numbers(states.likeliest, np.int64),
        probabilities=numbers(states.probabilities, np.float32),
    )


def _weights(answers: Answers, rows: NDArray[np.int64], prompt_weight: float) -> NDArray[np.float32]:
    """The last token of a prompt is followed by the answer's first, so it counts as the answer's."""
    within = np.arange(len(rows)) - answers.offsets[rows]
    weights = np.where(within >= answers.prompt_lengths[rows] - 1, 1.0, prompt_weight)
    return np.where(answers.held[rows], 0.0, weights).astype(np.float32)
