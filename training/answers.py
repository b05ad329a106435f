"""Prompts with the target's own answers, as token ids, in one ``.npz`` file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HELD_OUT_EVERY = 16


@dataclass(frozen=True, slots=True)
class Answers:
    """
    Attributes:
        tokens: uint16 or uint32, prompt then answer, one row after another.
        offsets: where each row starts, and where the last one ends.
        prompt_lengths, temperatures: of each row.
        held: whether a row is for measuring, never for training.
    """

    tokens: NDArray[np.unsignedinteger]
    offsets: NDArray[np.int64]
    prompt_lengths: NDArray[np.int32]
    temperatures: NDArray[np.float32]
    held: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.prompt_lengths)

    @property
    def answer_tokens(self) -> int:
        return int(self.offsets[-1] - self.prompt_lengths.sum())

    def row(self, index: int) -> list[int]:
        found: list[int] = self.tokens[self.offsets[index] : self.offsets[index + 1]].tolist()
        return found

    def first(self, max_tokens: int) -> Answers:
        """The rows that come first, of at most ``max_tokens`` tokens together."""
        count = int(np.searchsorted(self.offsets, max_tokens, "right")) - 1
        return Answers(
            self.tokens[: self.offsets[count]],
            self.offsets[: count + 1],
            self.prompt_lengths[:count],
            self.temperatures[:count],
            self.held[:count],
        )

    def take(self, rows: Sequence[int]) -> Answers:
        """These rows, in that order."""
        return gather(
            [self.row(row) for row in rows],
            self.prompt_lengths[rows].tolist(),
            self.temperatures[rows].tolist(),
            self.held[rows],
        )


def held_out(count: int) -> NDArray[np.bool_]:
    """Of so many rows every sixteenth; the same rows when more follow them."""
    held: NDArray[np.bool_] = np.arange(count) % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
    return held


def gather(
    rows: Sequence[Sequence[int]],
    prompt_lengths: Sequence[int],
    temperatures: Sequence[float],
    held: NDArray[np.bool_] | None = None,
) -> Answers:
    """``held``: as of ``Answers``; without it ``held_out`` says."""
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    tokens = np.concatenate([np.zeros(0, np.uint32), *(np.asarray(row, np.uint32) for row in rows)])
    return Answers(
        tokens,
        offsets,
        np.asarray(prompt_lengths, np.int32),
        np.asarray(temperatures, np.float32),
        held_out(len(rows)) if held is None else held,
    )


def join(parts: Sequence[Answers]) -> Answers:
    ends = np.cumsum([0, *(part.offsets[-1] for part in parts)])
    shifted = [part.offsets[1:] + end for part, end in zip(parts, ends, strict=False)]
    return Answers(
        np.concatenate([part.tokens.astype(np.uint32) for part in parts]),
        np.concatenate([np.zeros(1, np.int64), *shifted]),
        np.concatenate([part.prompt_lengths for part in parts]),
        np.concatenate([part.temperatures for part in parts]),
        np.concatenate([part.held for part in parts]),
    )


def load(path: Path) -> Answers:
    with np.load(path) as file:
        return read(file)


def read(file: Mapping[str, NDArray[Any]]) -> Answers:
    """One that does not say which rows are held out holds out every sixteenth."""
    return Answers(
        file["tokens"],
        file["offsets"].astype(np.int64),
        file["prompt_lengths"],
        file["temperatures"],
        file["held"] if "held" in file else held_out(len(file["prompt_lengths"])),
    )


def save(path: Path, answers: Answers) -> None:
    """The file is whole or not there at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(dir=path.parent, suffix=".npz")
    os.close(descriptor)
    np.savez(
        made,
        tokens=answers.tokens,
        offsets=answers.offsets,
        prompt_lengths=answers.prompt_lengths,
        temperatures=answers.temperatures,
        held=answers.held,
    )
    Path(made).chmod(0o644)
    Path(made).replace(path)
