from __future__ import annotations

from router.breaker import Breaker, State
from tests.unit.router.fakes import Clock, breaker


def state(subject: Breaker) -> State:
    return subject.state


def opened(clock: Clock) -> Breaker:
    subject = breaker(clock)
    for _ in range(3):
        subject.failed()
    return subject


def test_it_opens_after_the_configured_number_of_failures_in_a_row() -> None:
    subject = breaker(Clock())
    subject.failed()
    subject.failed()
    assert state(subject) is State.CLOSED
    assert subject.allow()
    subject.failed()
    assert state(subject) is State.OPEN
    assert not subject.allow()


def test_a_success_in_between_starts_the_count_again() -> None:
    subject = breaker(Clock())
    for _ in range(5):
        subject.failed()
        subject.failed()
        subject.succeeded()
    assert state(subject) is State.CLOSED
    assert subject.consecutive_failures == 0


def test_it_turns_half_open_when_its_time_is_over_and_lets_one_probe_through() -> None:
    clock = Clock()
    subject = opened(clock)
    clock.now += 1.99
    assert state(subject) is State.OPEN
    clock.now += 0.01
    assert state(subject) is State.HALF_OPEN
    assert subject.allow()
    assert not subject.allow()


def test_a_probe_that_succeeds_closes_it() -> None:
    clock = Clock()
    subject = opened(clock)
    clock.now += 2
    assert subject.allow()
    subject.succeeded()
    assert state(subject) is State.CLOSED
    assert subject.allow()


def test_each_failed_probe_doubles_the_open_time_up_to_the_cap() -> None:
    clock = Clock()
    subject = opened(clock)
    clock.now += 2
    for seconds in (4, 8, 10, 10):
        assert subject.allow()
        subject.failed()
        clock.now += seconds - 0.01
        assert state(subject) is State.OPEN
        clock.now += 0.01
        assert state(subject) is State.HALF_OPEN


def test_after_a_recovery_it_opens_for_the_first_time_span_again() -> None:
    clock = Clock()
    subject = opened(clock)
    clock.now += 2
    subject.allow()
    subject.failed()
    clock.now += 4
    subject.allow()
    subject.succeeded()
    for _ in range(3):
        subject.failed()
    clock.now += 2
    assert state(subject) is State.HALF_OPEN


def test_a_late_failure_of_a_call_from_before_does_not_prolong_the_open_time() -> None:
    clock = Clock()
    subject = opened(clock)
    clock.now += 1
    subject.failed()
    clock.now += 1
    assert state(subject) is State.HALF_OPEN
