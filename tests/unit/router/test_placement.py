"""Which replica of several."""

from __future__ import annotations

import random
from collections import Counter

from router.breaker import Outcome
from router.placement import affine, by_load, two_choices
from router.registry import Endpoint, Report
from tests.unit.router.fakes import registry


def replicas(count: int, load: int = 0, capacity: int = 0) -> list[Endpoint]:
    known = list(registry([f"v{number}:1" for number in range(count)]))
    for each in known:
        each.report = Report(True, load, capacity)
    return known


def chosen(among: list[Endpoint], key: str, most: float = 1.25) -> Endpoint:
    return affine(among, key, most, random.Random(1))[0]


def test_prompts_that_begin_alike_go_to_one_replica_and_others_spread() -> None:
    among = replicas(4)
    first = {key: chosen(among, key).address for key in map(str, range(400))}
    assert all(chosen(among, key).address == address for key, address in first.items())
    assert all(70 <= count <= 130 for count in Counter(first.values()).values())


def test_every_router_prefers_alike_whatever_order_it_knows_replicas_in() -> None:
    among = replicas(5)
    assert chosen(among, "k").address == chosen(among[::-1], "k").address


def test_a_replica_that_leaves_moves_only_its_own_prompts() -> None:
    among = replicas(5)
    before = {key: chosen(among, key).address for key in map(str, range(200))}
    after = {key: chosen(among[1:], key).address for key in before}
    assert all(after[key] == address for key, address in before.items() if address != "v0:1")


def test_a_replica_with_more_than_its_share_of_load_is_passed_over() -> None:
    among = replicas(4, load=10)
    preferred = chosen(among, "k")
    preferred.planned = 3
    assert chosen(among, "k") is preferred
    preferred.planned = 6
    second = chosen(among, "k")
    assert second is not preferred
    assert chosen(among, "k", most=100) is preferred


def test_no_replica_gets_more_than_the_bound() -> None:
    among = replicas(4)
    for _ in range(400):
        chosen(among, "the same for all").planned += 1
    assert max(each.load for each in among) <= 1.25 * 100 + 2


def test_full_and_failing_replicas_come_last_but_do_come() -> None:
    among = replicas(2, load=4, capacity=8)
    preferred = chosen(among, "k")
    preferred.report = Report(True, 4, 4)
    assert chosen(among, "k") is not preferred
    preferred.report = Report(True, 4, 8)
    preferred.breaker.record(Outcome.FAILED)
    ordered = affine(among, "k", 1.25, random.Random(1))
    assert ordered[-1] is preferred and len(ordered) == 2


def test_without_a_key_load_decides() -> None:
    among = replicas(3, load=5)
    among[1].report = Report(True, 1)
    assert affine(among, "", 1.25, random.Random(1))[0] is among[1]


def test_of_two_picked_at_random_the_less_loaded_is_taken() -> None:
    among = replicas(10)
    for number, each in enumerate(among):
        each.planned = number
    rng = random.Random(4)
    firsts = Counter(two_choices(among, rng)[0].load for _ in range(2000))
    assert 9 not in firsts
    # The k-th least loaded of n is the better of two with probability 2 (n - k) / (n (n - 1)).
    assert abs(firsts[0] / 2000 - 0.2) < 0.04
    assert firsts[0] > firsts[4] > firsts[8]


def test_the_others_follow_by_load() -> None:
    among = replicas(5)
    for number, each in enumerate(among):
        each.planned = 5 - number
    first, *rest = two_choices(among, random.Random(2))
    assert rest == by_load([each for each in among if each is not first], random.Random(2))
    assert two_choices(among[:1], random.Random(2)) == among[:1]
    assert two_choices([], random.Random(2)) == []
