"""One that is late time after time rests, ever longer, until it is in time again."""

from __future__ import annotations

import itertools

from common.types import ValidatorChoice
from verify_service.validators.patience import _MOST_KNOWN, MOST_LATE, Patience

SLOW = ValidatorChoice("slow", {"a": "1", "b": "2"})


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_few_late_answers_in_a_row_make_it_rest() -> None:
    clock = Clock()
    patience = Patience(clock)
    for _ in range(MOST_LATE - 1):
        patience.late(SLOW)
    assert patience.allows(SLOW)
    patience.answered(SLOW)
    patience.late(SLOW)
    assert patience.allows(SLOW), "it was in time in between"
    for _ in range(MOST_LATE):
        patience.late(SLOW)
    assert not patience.allows(SLOW)
    clock.now += 60
    assert patience.allows(SLOW)
    patience.late(SLOW)
    assert not patience.allows(SLOW), "one more is enough now"


def test_it_rests_longer_each_time() -> None:
    clock, rests = Clock(), []
    patience = Patience(clock)
    for _ in range(4):
        patience.hung(SLOW)
        began = clock.now
        while not patience.allows(SLOW):
            clock.now += 0.05
        rests.append(clock.now - began)
    assert all(later > 1.5 * earlier for earlier, later in itertools.pairwise(rests))


def test_other_options_are_another_matter_and_their_order_is_not() -> None:
    patience = Patience(Clock())
    patience.hung(SLOW)
    assert patience.allows(ValidatorChoice("slow", {"a": "1"}))
    assert not patience.allows(ValidatorChoice("slow", {"b": "2", "a": "1"}))


def test_what_is_remembered_is_bounded() -> None:
    patience = Patience(Clock())
    for place in range(_MOST_KNOWN + 5):
        patience.hung(ValidatorChoice("slow", {"place": str(place)}))
    assert len(patience._records) == _MOST_KNOWN
    assert patience.allows(ValidatorChoice("slow", {"place": "0"}))
