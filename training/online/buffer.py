"""Samples on disk, the latest ones, in ``.npz`` files that are read without pickle."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.samples import Sample
from training.online import traffic
from training.online.traffic import Traffic

_DIGITS = 12
_FEW = 256  # samples of a file that further ones are still put into


class Buffer:
    """Files named by the numbers of their first sample and of the one after their last.

    Each is whole or not there at all; where there are more samples than may be kept, the oldest file goes.
    Samples may be added in one thread while they are read in another.
    """

    def __init__(self, folder: Path, most: int) -> None:
        """``most``: samples that are kept; up to a file more are."""
        self._folder = folder
        self._most = most
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def end(self) -> int:
        """How many samples ever came."""
        with self._lock:
            return self._end()

    def add(self, samples: Sequence[Sample]) -> None:
        """They are on disk when this returns; a last file with few samples is written anew with them."""
        if not samples:
            return
        with self._lock:
            files, found = self._files(), traffic.gather(samples)
            start, before = self._end(), files[-1] if files else None
            if before and before[1] - before[0] < _FEW:
                start, found = before[0], traffic.join([traffic.load(before[2]), found])
            name = f"{start:0{_DIGITS}}-{start + len(found):0{_DIGITS}}.npz"
            traffic.save(self._folder / name, found)
            self._forget_oldest()

    def count(self, prompt_class: str) -> int:
        """Samples of a class that are kept."""
        with self._lock:
            return sum(int((_classes(path) == prompt_class).sum()) for _, _, path in self._files())

    def kept(self) -> tuple[int, Traffic | None]:
        """All samples that are kept, and the number of the first; None: none are."""
        with self._lock:
            files = self._files()
            parts = [traffic.load(path) for _, _, path in files]
        return (files[0][0], traffic.join(parts)) if parts else (0, None)

    def _end(self) -> int:
        return max((stop for _, stop, _ in self._files()), default=0)

    def _forget_oldest(self) -> None:
        files = self._files()
        while files[-1][1] - files[0][1] >= self._most:
            files.pop(0)
        keep = {path for _, _, path in files}
        for path in self._folder.glob("*.npz"):
            if path not in keep:
                path.unlink()

    def _files(self) -> list[tuple[int, int, Path]]:
        """First number, number after the last, and the file; the oldest first.

        Of two with the same beginning the longer one holds what the other does.
        """
        found = {}
        for path in sorted(self._folder.glob("*.npz")):
            start, _, stop = path.stem.partition("-")
            if start.isdecimal() and stop.isdecimal():
                found[int(start)] = (int(start), int(stop), path)
        return [*found.values()]


def _classes(path: Path) -> NDArray[np.str_]:
    with np.load(path) as file:
        found: NDArray[np.str_] = file["classes"]
    return found
