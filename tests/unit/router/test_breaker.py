from __future__ import annotations

import pytest

from router.breaker import Breaker, Outcome, Reason, State
from tests.unit.router.fakes import Clock, FakePeers, limits

FAILED, ANSWERED, SLOW = Outcome.FAILED, Outcome.ANSWERED, Outcome.SLOW
GOOD, BAD = Outcome.GOOD_BLOCK, Outcome.BAD_BLOCK


class Subject:
    """A breaker with its clock and its peers; half of 4 answers or blocks open it, or 3 failures in a row."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.peers = FakePeers()
        self.breaker = Breaker(limits(), self.peers, self.clock)

    def state(self) -> State:
        return self.breaker.state

    def record(self, *outcomes: Outcome) -> None:
        for outcome in outcomes:
            self.breaker.record(outcome)

    def probe(self, outcome: Outcome) -> None:
        assert self.breaker.allow()
        self.record(outcome)


@pytest.fixture
def subject() -> Subject:
    return Subject()


@pytest.fixture
def opened(subject: Subject) -> Subject:
    subject.record(FAILED, FAILED, FAILED)
    return subject


def test_it_opens_after_the_configured_number_of_failures_in_a_row(subject: Subject) -> None:
    subject.record(FAILED, FAILED)
    assert subject.state() is State.CLOSED
    assert subject.breaker.allow()
    subject.record(FAILED)
    assert subject.state() is State.OPEN
    assert subject.breaker.reason is Reason.FAILURES
    assert not subject.breaker.allow()


def test_a_success_in_between_starts_the_count_again(subject: Subject) -> None:
    for _ in range(5):
        subject.record(FAILED, FAILED, ANSWERED)
    assert subject.state() is State.CLOSED
    assert subject.breaker.consecutive_failures == 0


def test_it_turns_half_open_when_its_time_is_over_and_lets_one_probe_through(opened: Subject) -> None:
    opened.clock.now += 1.99
    assert opened.state() is State.OPEN
    opened.clock.now += 0.01
    assert opened.state() is State.HALF_OPEN
    assert opened.breaker.allow()
    assert not opened.breaker.allow()


@pytest.mark.parametrize("answer", [ANSWERED, SLOW])
def test_after_failures_any_answer_closes_it(opened: Subject, answer: Outcome) -> None:
    opened.clock.now += 2
    opened.probe(answer)
    assert opened.state() is State.CLOSED
    assert opened.breaker.reason is None
    assert opened.breaker.allow()


def test_each_failed_probe_doubles_the_open_time_up_to_the_cap(opened: Subject) -> None:
    opened.clock.now += 2
    for seconds in (4, 8, 10, 10):
        opened.probe(FAILED)
        opened.clock.now += seconds - 0.01
        assert opened.state() is State.OPEN
        opened.clock.now += 0.01
        assert opened.state() is State.HALF_OPEN


def test_after_a_recovery_it_opens_for_the_first_time_span_again(opened: Subject) -> None:
    opened.clock.now += 2
    opened.probe(FAILED)
    opened.clock.now += 4
    opened.probe(ANSWERED)
    opened.record(FAILED, FAILED, FAILED)
    opened.clock.now += 2
    assert opened.state() is State.HALF_OPEN


def test_a_late_failure_of_a_call_from_before_does_not_prolong_the_open_time(opened: Subject) -> None:
    opened.clock.now += 1
    opened.record(FAILED)
    opened.clock.now += 1
    assert opened.state() is State.HALF_OPEN


@pytest.mark.parametrize(
    ("ill", "well", "reason"), [(SLOW, ANSWERED, Reason.SLOW), (BAD, GOOD, Reason.BAD_BLOCKS)]
)
def test_half_of_a_window_that_is_ill_opens_it(
    subject: Subject, ill: Outcome, well: Outcome, reason: Reason
) -> None:
    subject.record(ill, well, well, well, ill, well)
    assert subject.state() is State.CLOSED
    subject.record(ill)
    assert subject.state() is State.OPEN
    assert subject.breaker.reason is reason
    assert subject.peers.told == [reason]


def test_answers_and_blocks_have_windows_of_their_own(subject: Subject) -> None:
    subject.record(SLOW, BAD)
    assert subject.state() is State.CLOSED
    subject.record(ANSWERED, ANSWERED, ANSWERED, BAD)
    assert subject.breaker.reason is Reason.BAD_BLOCKS


def test_a_call_is_slow_when_it_takes_longer_than_the_limit(subject: Subject) -> None:
    for _ in range(4):
        subject.breaker.answered(0.5)
    assert subject.state() is State.CLOSED
    subject.breaker.answered(0.501)
    subject.breaker.answered(0.501)
    assert subject.breaker.reason is Reason.SLOW


@pytest.mark.parametrize("ill", [SLOW, BAD])
def test_it_stays_closed_while_its_pool_cannot_do_without_it_and_opens_once_it_can(
    subject: Subject, ill: Outcome
) -> None:
    subject.peers.spare = False
    subject.record(ill, ill, ill, ill)
    assert subject.state() is State.CLOSED
    assert subject.peers.told == []
    subject.peers.spare = True
    subject.record(ill)
    assert subject.state() is State.OPEN


def test_failures_open_it_whether_or_not_its_pool_can_do_without_it(subject: Subject) -> None:
    subject.peers.spare = False
    subject.record(FAILED, FAILED, FAILED)
    assert subject.state() is State.OPEN
    assert subject.peers.told == [Reason.FAILURES]


def test_a_slow_endpoint_stays_out_until_a_probe_is_quick(subject: Subject) -> None:
    subject.record(SLOW, SLOW)
    subject.record(ANSWERED)
    assert subject.state() is State.OPEN, "an answer to a call from before"
    subject.clock.now += 2
    subject.probe(SLOW)
    assert subject.peers.told == [Reason.SLOW], "it was out all the time"
    subject.clock.now += 3.99
    assert subject.state() is State.OPEN
    subject.clock.now += 0.01
    subject.probe(ANSWERED)
    assert subject.state() is State.CLOSED
    subject.record(SLOW)
    assert subject.state() is State.CLOSED, "what was before does not count any more"


@pytest.mark.parametrize("late", [BAD, GOOD])
def test_blocks_from_before_it_opened_change_nothing(subject: Subject, late: Outcome) -> None:
    subject.record(BAD, BAD)
    subject.clock.now += 1
    subject.record(late, late, late, late)
    subject.clock.now += 1
    assert subject.state() is State.HALF_OPEN
    assert subject.peers.told == [Reason.BAD_BLOCKS]


def test_after_bad_blocks_the_first_block_decides_once_a_probe_was_answered(subject: Subject) -> None:
    subject.record(BAD, BAD)
    subject.record(ANSWERED, GOOD)
    assert subject.state() is State.OPEN
    subject.clock.now += 2
    subject.probe(ANSWERED)
    assert subject.state() is State.CLOSED
    subject.record(BAD)
    assert subject.state() is State.OPEN
    subject.clock.now += 3.99
    assert subject.state() is State.OPEN, "twice as long as before"
    subject.clock.now += 0.01
    subject.probe(ANSWERED)
    subject.record(GOOD, BAD)
    assert subject.state() is State.CLOSED
    subject.record(BAD)
    subject.clock.now += 2
    assert subject.state() is State.HALF_OPEN, "the good block ended the trial"


def test_an_ejected_endpoint_that_dies_is_one_that_fails(subject: Subject) -> None:
    subject.record(SLOW, SLOW)
    subject.clock.now += 2
    subject.probe(FAILED)
    assert subject.breaker.reason is Reason.FAILURES
    assert subject.peers.told == [Reason.SLOW, Reason.FAILURES]
