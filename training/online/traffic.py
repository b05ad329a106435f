"""Sampled answers with what the target found likeliest in them, as arrays."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.samples import LIKELIEST, Sample
from training import answers
from training.answers import HELD_OUT_EVERY, Answers


@dataclass(frozen=True, slots=True)
class Traffic:
    """
    Attributes:
        answers: one row a sample, the oldest first; temperature 0 stands for a greedy one, 1 for any other.
        classes: of each row, what the router took it for.
        likeliest: uint32 [answer tokens, LIKELIEST], row after row; see ``common.samples.Sample``.
        probabilities: float16 [answer tokens, LIKELIEST]; all 0 where nothing was published.
    """

    answers: Answers
    classes: NDArray[np.str_]
    likeliest: NDArray[np.uint32]
    probabilities: NDArray[np.float16]

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each row's answer begins in ``likeliest``, and where the last one ends."""
        lengths = np.diff(self.answers.offsets) - self.answers.prompt_lengths
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])

    def take(self, rows: Sequence[int]) -> Traffic:
        starts = self.starts
        pieces = [np.arange(starts[row], starts[row + 1]) for row in rows]
        places = np.concatenate([np.zeros(0, np.int64), *pieces])
        return Traffic(
            self.answers.take(rows),
            self.classes[list(rows)],
            self.likeliest[places],
            self.probabilities[places],
        )


def gather(samples: Sequence[Sample]) -> Traffic:
    rows = [sample.token_ids for sample in samples]
    held = np.array([held_out(s.token_ids[: s.prompt_length]) for s in samples], np.bool_)
    nothing = np.zeros((0, LIKELIEST))
    return Traffic(
        answers.gather(
            rows,
            [sample.prompt_length for sample in samples],
            [0.0 if sample.greedy else 1.0 for sample in samples],
            held,
        ),
        np.array([sample.prompt_class for sample in samples], np.str_),
        np.concatenate([nothing, *(sample.likeliest for sample in samples)]).astype(np.uint32),
        np.concatenate([nothing, *(sample.probabilities for sample in samples)]).astype(np.float16),
    )


def join(parts: Sequence[Traffic]) -> Traffic:
    return Traffic(
        answers.join([part.answers for part in parts]),
        np.concatenate([part.classes for part in parts]),
        np.concatenate([part.likeliest for part in parts]),
        np.concatenate([part.probabilities for part in parts]),
    )


def held_out(prompt: Sequence[int]) -> bool:
    """Whether answers to a prompt are for measuring: the same prompt never is on both sides."""
    digest = hashlib.blake2b(np.asarray(prompt, "<u4").tobytes(), digest_size=8).digest()
    return int.from_bytes(digest) % HELD_OUT_EVERY == HELD_OUT_EVERY - 1


def save(path: Path, found: Traffic) -> None:
    """The file is whole or not there at all."""
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=".saving-")
    with os.fdopen(descriptor, "wb") as file:
        np.savez(
            file,
            tokens=found.answers.tokens,
            offsets=found.answers.offsets,
            prompt_lengths=found.answers.prompt_lengths,
            temperatures=found.answers.temperatures,
            held=found.answers.held,
            classes=found.classes,
            likeliest=found.likeliest,
            probabilities=found.probabilities,
        )
        file.flush()
        os.fsync(file.fileno())
    Path(made).replace(path)


def load(path: Path) -> Traffic:
    """Arrays of numbers and letters only; nothing in the file could run code."""
    with np.load(path) as file:
        return Traffic(answers.read(file), file["classes"], file["likeliest"], file["probabilities"])
