"""When a session without drafts looks whether they would pay again."""

from __future__ import annotations

import math

_SHORTEST_GAP = 6
_LONGEST_GAP = 24
_GAP_AFTER_FOUND = 2
_MOST_IN_A_ROW = 8  # found so close to each other
_LARGEST_SHARE = 0.015  # of the time that drafts may compute for probes
_LONGEST_FOR_SHARE = 256
_MEMORY = 8.0  # probes


class Probing:
    """A probe every so many tokens; the gap doubles while they fail, up to a bound.

    After one that stands the next come soon. If drafts are not used after several of those, it is not
    acceptance that is missing, and they count as failed. Whatever they find, what drafts compute for them
    stays a small part of the time: they may do so on the cores that the target needs.
    """

    def __init__(self) -> None:
        self._gap = _SHORTEST_GAP
        self._due_at: int | None = None
        self._found = 0
        self._drafting = 0.0

    def due(self, position: int, token_seconds: float = math.inf) -> bool:
        """Whether to probe now, at so many committed tokens; if so, the next is due a gap later.

        Args:
            token_seconds: the time for a token without drafts.
        """
        gap = max(self._gap, self._affordable(token_seconds))
        if self._due_at is None:
            self._due_at = position + gap
        if position < self._due_at:
            return False
        self._due_at = position + gap
        return True

    def observe(self, found: bool, drafting: float = 0.0) -> None:
        """What a probe found, and the seconds that its draft computed."""
        self._drafting += (drafting - self._drafting) / _MEMORY if self._drafting else drafting
        self._found = self._found + 1 if found else 0
        if 0 < self._found <= _MOST_IN_A_ROW:
            self._gap, self._due_at = _GAP_AFTER_FOUND, None
        else:
            self._gap = min(2 * self._gap, _LONGEST_GAP)

    def stop(self) -> None:
        """Drafts are used again."""
        self._gap, self._due_at, self._found = _SHORTEST_GAP, None, 0

    def _affordable(self, token_seconds: float) -> int:
        return min(math.ceil(self._drafting / (_LARGEST_SHARE * token_seconds)), _LONGEST_FOR_SHARE)
