"""Keeps calls away from an endpoint that does badly, and finds out with single probes when it is well."""

from __future__ import annotations

import enum
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class State(enum.Enum):
    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"


class Outcome(enum.Enum):
    """What came of a call, or of a drafted block."""

    ANSWERED = "answered"
    SLOW = "slow"
    FAILED = "failed"
    GOOD_BLOCK = "good_block"
    BAD_BLOCK = "bad_block"


class Reason(enum.Enum):
    """Why a breaker is not closed."""

    FAILURES = "failures"
    SLOW = "slow"
    BAD_BLOCKS = "bad_blocks"


@dataclass(frozen=True, slots=True)
class Limits:
    """When a breaker opens, and for how long.

    Args:
        failures: failed calls in a row that open it.
        slow_seconds: a call that takes longer is slow.
        window: of so many answers, or blocks, half must be slow, or bad, to open it.
        open_seconds: how long it stays open the first time.
        max_open_seconds: the cap on that time, which every failed probe doubles.
    """

    failures: int
    slow_seconds: float
    window: int
    open_seconds: float
    max_open_seconds: float


class Peers(Protocol):
    """The pool of the endpoint, which may not lose too many to slow answers and bad blocks."""

    def may_eject(self) -> bool:
        """Whether it can do without the endpoint, though that answers."""

    def opened(self, reason: Reason) -> None:
        """To be told that it has to."""


class Breaker:
    """Opens after failures in a row, and where half of a window of answers is slow, or of blocks bad.

    Open, it waits; half open, one call may be made as a probe. The probe of an endpoint that was slow must
    not be slow. What blocks are like shows no probe, so after bad ones the first block decides.

    A call that ``allow`` lets through must end in ``record`` or ``answered``. Anything that sees calls or
    blocks end may report them, also without having asked.

    Attributes:
        reason: why it is not closed; None when it is.
        opened_at: when it opened last.
    """

    def __init__(self, limits: Limits, peers: Peers, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._peers = peers
        self._clock = clock
        self.consecutive_failures = 0
        self.reason: Reason | None = None
        self.opened_at = clock()
        self._open_seconds = limits.open_seconds
        self._probing = False
        self._on_trial = False
        self._slow: deque[bool] = deque(maxlen=limits.window)
        self._bad: deque[bool] = deque(maxlen=limits.window)

    @property
    def state(self) -> State:
        if self.reason is None:
            return State.CLOSED
        return State.OPEN if self._clock() < self.opened_at + self._open_seconds else State.HALF_OPEN

    def allow(self) -> bool:
        """Whether a call may be made now. Half-open, one caller gets a yes and its call is the probe."""
        if self.state is State.HALF_OPEN and not self._probing:
            self._probing = True
            return True
        return self.state is State.CLOSED

    def answered(self, seconds: float) -> None:
        """Record a call that was answered after so long."""
        self.record(Outcome.SLOW if seconds > self._limits.slow_seconds else Outcome.ANSWERED)

    def record(self, outcome: Outcome) -> None:
        match outcome:
            case Outcome.FAILED:
                self._failed()
            case Outcome.ANSWERED | Outcome.SLOW:
                self._answered(slow=outcome is Outcome.SLOW)
            case Outcome.GOOD_BLOCK | Outcome.BAD_BLOCK:
                self._block(bad=outcome is Outcome.BAD_BLOCK)

    def close(self) -> None:
        """Let calls through again."""
        self._on_trial = self.reason is Reason.BAD_BLOCKS
        self.reason = None
        self._probing = False
        if not self._on_trial:
            self._open_seconds = self._limits.open_seconds

    def _failed(self) -> None:
        self.consecutive_failures += 1
        match self.state:
            case State.CLOSED if self.consecutive_failures >= self._limits.failures:
                self._open(Reason.FAILURES)
            case State.HALF_OPEN:
                self._open_longer(Reason.FAILURES)
            case _:
                pass  # below the limit, or a call that began before the breaker opened

    def _answered(self, *, slow: bool) -> None:
        self.consecutive_failures = 0
        match self.state:
            case State.CLOSED:
                self._slow.append(slow)
                if self._half(self._slow) and self._peers.may_eject():
                    self._open(Reason.SLOW)
            case State.HALF_OPEN if slow and self.reason is Reason.SLOW:
                self._open_longer(Reason.SLOW)
            case State.OPEN if self.reason is not Reason.FAILURES:
                pass  # a call that began before the breaker opened, and does not show that it should not have
            case _:
                self.close()

    def _block(self, *, bad: bool) -> None:
        if self.state is not State.CLOSED:
            return
        self._bad.append(bad)
        if (self._half(self._bad) or (bad and self._on_trial)) and self._peers.may_eject():
            reopen = self._open_longer if self._on_trial else self._open
            reopen(Reason.BAD_BLOCKS)
        elif self._on_trial:
            self._on_trial = False
            self._open_seconds = self._limits.open_seconds

    def _half(self, window: deque[bool]) -> bool:
        return 2 * sum(window) >= self._limits.window

    def _open_longer(self, reason: Reason) -> None:
        self._open_seconds = min(2 * self._open_seconds, self._limits.max_open_seconds)
        self._open(reason)

    def _open(self, reason: Reason) -> None:
        news = reason is not self.reason
        self.reason = reason
        self.opened_at = self._clock()
        self._probing = self._on_trial = False
        self._slow.clear()
        self._bad.clear()
        if news:
            self._peers.opened(reason)
