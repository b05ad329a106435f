"""How long to wait before the next try."""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """Doubles from ``first_seconds`` up to ``longest_seconds``, each time between half of that and all of it.

    Args:
        spread: a number between two others; random, so that routers do not come back all at once.
    """

    def __init__(
        self,
        first_seconds: float,
        longest_seconds: float,
        spread: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._spread = spread
        self._seconds = first_seconds

    def next_seconds(self) -> float:
        seconds = self._seconds
        self._seconds = min(2 * seconds, self._longest_seconds)
        return self._spread(seconds / 2, seconds)

    def reset(self) -> None:
        self._seconds = self._first_seconds
