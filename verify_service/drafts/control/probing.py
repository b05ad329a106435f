"""When a session without drafts looks whether they would pay again."""

from __future__ import annotations

_SHORTEST_GAP = 6
_LONGEST_GAP = 24
_GAP_AFTER_FOUND = 2


class Probing:
    """A probe every so many tokens; the gap doubles while they fail, up to a bound."""

    def __init__(self) -> None:
        self._gap = _SHORTEST_GAP
        self._due_at: int | None = None

    def due(self, position: int) -> bool:
        """Whether to probe now, at so many committed tokens; if so, the next is due a gap later."""
        if self._due_at is None:
            self._due_at = position + self._gap
        if position < self._due_at:
            return False
        self._due_at = position + self._gap
        return True

    def observe(self, found: bool) -> None:
        """What a probe found: after a good one the next comes soon."""
        self._gap = _GAP_AFTER_FOUND if found else min(2 * self._gap, _LONGEST_GAP)
        if found:
            self._due_at = None

    def stop(self) -> None:
        """Drafts are used again."""
        self._gap, self._due_at = _SHORTEST_GAP, None
