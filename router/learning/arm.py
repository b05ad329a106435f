"""What one draft pool has been worth to one class of prompts, the past counting less and less."""

from __future__ import annotations

import math
from dataclasses import dataclass

_SHORT = 6
"""Answers that are looked at for a change."""


@dataclass(slots=True)
class Arm:
    """A discounted mean of values.

    Attributes:
        weight: answers it rests on, each counting less as others of the class come in.
        mean: of their values.
        recent: mean of the last few, by exponential smoothing.
        seen: values since the arm was made or shaken.
    """

    weight: float = 0.0
    mean: float = 0.0
    recent: float = 0.0
    seen: int = 0

    def fade(self, keep: float) -> None:
        """Another answer of the class came in, of whichever arm."""
        self.weight *= keep

    def add(self, value: float) -> float:
        """Returns what was unexpected about the value; 0 for the first."""
        surprise = value - self.mean if self.weight > 0 else 0.0
        self.weight += 1.0
        self.mean += (value - self.mean) / self.weight
        self.recent = value if self.seen == 0 else self.recent + (value - self.recent) * 2 / (_SHORT + 1)
        self.seen += 1
        return surprise

    def drifted(self, spread: float, sigmas: float) -> bool:
        """Whether the last few values say something else than all of them do.

        Args:
            spread: standard deviation of single values.
        """
        # Variance of exponential smoothing: a / (2 - a) of a value's, here with a = 2 / (n + 1).
        error = spread * math.sqrt(1 / _SHORT + 1 / max(self.weight, 1.0))
        return self.seen >= 2 * _SHORT and abs(self.recent - self.mean) > sigmas * error

    def shake(self, weight: float) -> None:
        """Things have changed: what is believed rests on little now, and on what came last."""
        self.mean, self.weight, self.seen = self.recent, min(self.weight, weight), 0
