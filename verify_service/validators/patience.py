"""Which validators are asked: one that is late time after time rests for a while."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from common.types import ValidatorChoice
from verify_service.drafts.breaker import WaitBreaker
from verify_service.validators.checks import Key, key_of

MOST_LATE = 3
_MOST_KNOWN = 256


@dataclass(slots=True)
class _Record:
    breaker: WaitBreaker
    late: int = 0


class Patience:
    """By what was chosen, name and options: what options make slow is not held against others."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._records: OrderedDict[Key, _Record] = OrderedDict()

    def allows(self, choice: ValidatorChoice) -> bool:
        record = self._records.get(key_of(choice))
        return record is None or record.breaker.closed

    def late(self, choice: ValidatorChoice) -> None:
        """It took longer than it may."""
        record = self._record(choice)
        record.late += 1
        if record.late >= MOST_LATE:
            record.breaker.missed()

    def hung(self, choice: ValidatorChoice) -> None:
        """It had to be killed."""
        record = self._record(choice)
        record.late = MOST_LATE
        record.breaker.missed()

    def answered(self, choice: ValidatorChoice) -> None:
        """It was in time."""
        record = self._records.get(key_of(choice))
        if record:
            record.late = 0
            record.breaker.answered()

    def _record(self, choice: ValidatorChoice) -> _Record:
        key = key_of(choice)
        record = self._records.setdefault(key, _Record(WaitBreaker(self._clock)))
        self._records.move_to_end(key)
        if len(self._records) > _MOST_KNOWN:
            self._records.popitem(last=False)
        return record
