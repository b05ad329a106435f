from __future__ import annotations

from router.discovery.backoff import Backoff


def test_pauses_double_up_to_the_longest_and_start_again_after_a_reset() -> None:
    longest = Backoff(1, 5, spread=lambda low, high: high)
    assert [longest.next_seconds() for _ in range(5)] == [1, 2, 4, 5, 5]
    longest.reset()
    assert longest.next_seconds() == 1


def test_a_pause_is_at_least_half_as_long_as_the_longest_it_could_be() -> None:
    shortest = Backoff(1, 5, spread=lambda low, high: low)
    assert [shortest.next_seconds() for _ in range(5)] == [0.5, 1, 2, 2.5, 2.5]


def test_two_routers_do_not_come_back_at_the_same_time() -> None:
    one, other = Backoff(1, 5), Backoff(1, 5)
    assert [one.next_seconds() for _ in range(5)] != [other.next_seconds() for _ in range(5)]
