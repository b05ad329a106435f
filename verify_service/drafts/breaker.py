"""Whether to wait for a draft replica."""

from __future__ import annotations

import time
from collections.abc import Callable

_FIRST_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 8.0


class WaitBreaker:
    """Opens on a missed wait; after a pause, which doubles up to a cap, lets sessions try again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pause = _FIRST_PAUSE_SECONDS
        self._open_until = 0.0
        self._well_since = 0.0

    @property
    def closed(self) -> bool:
        return self._clock() >= self._open_until

    def missed(self) -> None:
        self._open_until = self._clock() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        self._well_since = self._open_until

    def answered(self) -> None:
        """An answer in time. After a good while of them a miss starts from the shortest pause again; not
        sooner, or a draft that is late every other time would be waited for every other time."""
        if self._clock() - self._well_since >= _LONGEST_PAUSE_SECONDS:
            self._pause = _FIRST_PAUSE_SECONDS
