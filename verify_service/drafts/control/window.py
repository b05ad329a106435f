"""A block size that follows the acceptance of the last few blocks."""

from __future__ import annotations

from collections import deque

from verify_service.drafts.control.base import Choice, Outcome, State
from verify_service.drafts.control.probing import Probing

_BLOCKS = 8
_FIRST_BLOCK_SIZE = 4
_SHRINK_BELOW = 0.7
_GROW_ABOVE = 0.85


class Window:
    def controller(self) -> WindowController:
        return WindowController()

    def observe_pass(self, rows: int, seconds: float) -> None:
        return


class WindowController:
    """One guess fewer when of the last blocks' guesses less than 70 % stood, one more above 85 %.

    It knows nothing of costs. A window that led to a change is not looked at again. At none it probes, and a
    probe that stands makes it one.
    """

    def __init__(self) -> None:
        self._block_size = _FIRST_BLOCK_SIZE
        self._window: deque[float] = deque(maxlen=_BLOCKS)
        self._probing = Probing()
        self._largest = 1

    def choose(self, state: State) -> Choice:
        self._largest = state.block_size
        if self._block_size:
            return Choice(min(self._block_size, state.block_size), state.tree_width)
        return Choice(1, 1, probe=True) if self._probing.due(state.position) else Choice()

    def observe(self, outcome: Outcome) -> None:
        if outcome.choice.probe:
            self._probing.observe(found=outcome.accepted > 0)
            self._block_size = int(outcome.accepted > 0)
        elif outcome.offered:
            self._window.append(outcome.accepted / outcome.offered)
            if len(self._window) == _BLOCKS:
                self._judge(sum(self._window) / _BLOCKS)

    def close(self) -> None:
        return

    def _judge(self, acceptance: float) -> None:
        change = (acceptance > _GROW_ABOVE) - (acceptance < _SHRINK_BELOW)
        changed = min(max(self._block_size + change, 0), max(self._largest, self._block_size))
        if changed != self._block_size:
            self._block_size = changed
            self._window.clear()
            self._probing.stop()
