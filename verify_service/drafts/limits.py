"""When drafts are used, and what they are sent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """When drafts are used at all.

    Attributes:
        min_batch: fewest sequences running.
        max_batch: most; 0: any number.
        min_confidence: where a draft is less sure of its guesses together, a block ends.
    """

    min_batch: int = 1
    max_batch: int = 0
    min_confidence: float = 0.0

    def allow(self, batch: int) -> bool:
        return self.min_batch <= batch <= (self.max_batch or batch)


@dataclass(frozen=True, slots=True)
class Hidden:
    """The hidden states that the runner gives: of which layers, each of what size; no layers: none."""

    layers: tuple[int, ...] = ()
    size: int = 0
