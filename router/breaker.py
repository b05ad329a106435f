"""Keeps calls away from an endpoint that fails, and finds out with single probes when it is back."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable


class State(enum.Enum):
    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"


class Breaker:
    """Opens after ``failures`` failed calls in a row; every failed probe doubles the time it stays open.

    A call that ``allow`` lets through must end in ``succeeded`` or ``failed``. Anything that sees calls
    end may report them, also without having asked: a success always closes the breaker.

    Args:
        failures: failed calls in a row that open it.
        open_seconds: how long it stays open the first time.
        max_open_seconds: the cap on the doubled time.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        *,
        failures: int,
        open_seconds: float,
        max_open_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = failures
        self._first_open_seconds = open_seconds
        self._max_open_seconds = max_open_seconds
        self._clock = clock
        self.consecutive_failures = 0
        self._open_seconds = open_seconds
        self._open_until: float | None = None
        self._probing = False

    @property
    def state(self) -> State:
        if self._open_until is None:
            return State.CLOSED
        return State.OPEN if self._clock() < self._open_until else State.HALF_OPEN

    def allow(self) -> bool:
        """Whether a call may be made now. Half-open, one caller gets a yes and its call is the probe."""
        if self.state is State.HALF_OPEN and not self._probing:
            self._probing = True
            return True
        return self.state is State.CLOSED

    def succeeded(self) -> None:
        self.consecutive_failures = 0
        self._open_seconds = self._first_open_seconds
        self._open_until = None
        self._probing = False

    def failed(self) -> None:
        self.consecutive_failures += 1
        match self.state:
            case State.CLOSED if self.consecutive_failures >= self._limit:
                self._open()
            case State.HALF_OPEN:
                self._open_seconds = min(2 * self._open_seconds, self._max_open_seconds)
                self._open()
            case _:
                pass  # below the limit, or a call that began before the breaker opened

    def _open(self) -> None:
        self._probing = False
        self._open_until = self._clock() + self._open_seconds
