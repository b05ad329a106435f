from __future__ import annotations

import asyncio

import pytest

from router.breaker import Breaker, Outcome
from router.registry import Endpoint, Registry, Report
from tests.unit.router.fakes import Clock, endpoint, limits, registry


def test_replacing_a_pool_keeps_what_is_known_of_the_endpoints_that_stay() -> None:
    known = registry(["v:1"], ngram=["a:1", "b:1"])
    stays = endpoint(known, "b:1")
    stays.report = Report(ready=True, load=3)
    known.replace("ngram", ["b:1", "c:1"])
    assert [each.address for each in known.pool("ngram")] == ["b:1", "c:1"]
    assert known.pool("ngram")[0] is stays
    assert not endpoint(known, "c:1").available


def test_verify_replicas_and_drafts_are_told_apart() -> None:
    known = registry(["v:1"], ngram=["a:1"], model=["b:1"])
    assert [each.address for each in known.verify()] == ["v:1"]
    assert [each.address for each in known.drafts()] == ["a:1", "b:1"]
    assert known.pool("eagle") == []


def test_an_endpoint_is_found_by_its_address() -> None:
    known = registry(["v:1"], ngram=["a:1"])
    assert known.find("a:1") is known.pool("ngram")[0]
    assert known.find("v:1") is known.verify()[0]
    assert known.find("b:1") is None
    known.replace("ngram", [])
    assert known.find("a:1") is None


def test_draft_pools_keep_the_order_in_which_they_came() -> None:
    known = registry(["v:1"], ngram=["a:1"], model=["b:1"])
    known.replace("eagle", [])
    known.replace("ngram", [])
    assert known.draft_pools() == ["ngram", "model", "eagle"]


def test_changes_name_who_came_and_who_left() -> None:
    known = registry(ngram=["a:1", "b:1"])
    left = endpoint(known, "a:1")
    known.changes = asyncio.Queue()
    known.replace("ngram", ["b:1", "c:1"])
    known.replace("ngram", ["c:1", "b:1"])
    change = known.changes.get_nowait()
    assert change.added == (endpoint(known, "c:1"),)
    assert change.removed == (left,)
    assert known.changes.empty()


def pool_of(count: int, max_ejected: float = 0.5) -> tuple[Registry, list[Endpoint]]:
    """A pool of endpoints that are ready, whose breakers open after 1 failure or 2 bad blocks."""
    known = Registry(lambda pool: Breaker(limits(1), pool, Clock()), max_ejected)
    known.replace("ngram", [f"n:{number + 1}" for number in range(count)])
    for each in known:
        each.report = Report(ready=True)
    return known, list(known)


def eject(*endpoints: Endpoint) -> None:
    """What it takes to eject them, if the pool allows it."""
    for each in endpoints:
        each.breaker.record(Outcome.BAD_BLOCK)
        each.breaker.record(Outcome.BAD_BLOCK)


@pytest.mark.parametrize(
    ("count", "share", "ejected"),
    [(1, 0.5, 0), (2, 0.5, 1), (3, 0.5, 1), (4, 0.5, 2), (10, 0.3, 3), (3, 1.0, 2), (4, 0.0, 0), (4, 0.2, 0)],
)
def test_only_so_many_of_a_pool_are_ejected(count: int, share: float, ejected: int) -> None:
    _, endpoints = pool_of(count, share)
    eject(*endpoints)
    assert [each.available for each in endpoints] == [False] * ejected + [True] * (count - ejected)


def test_endpoints_that_fail_or_are_not_ready_do_not_make_room_for_ejections() -> None:
    _, endpoints = pool_of(4)
    endpoints[0].breaker.record(Outcome.FAILED)
    endpoints[1].report = Report(ready=False)
    eject(*endpoints[2:])
    assert [each.available for each in endpoints] == [False, False, False, True]


def test_when_the_rest_of_a_pool_dies_those_ejected_longest_are_taken_back() -> None:
    clock = Clock()
    known = registry(ngram=["n:1", "n:2", "n:3", "n:4"], clock=clock, failures=1)
    first, second, third, fourth = known
    for each in known:
        each.report = Report(ready=True)
    eject(second)
    clock.now += 1
    eject(first)
    third.breaker.record(Outcome.FAILED)
    assert [each.available for each in known] == [False, True, False, True]
    fourth.breaker.record(Outcome.FAILED)
    assert [each.available for each in known] == [False, True, False, False]


def test_when_the_rest_of_a_pool_leaves_an_ejected_endpoint_is_taken_back() -> None:
    known, (first, *_) = pool_of(2)
    eject(first)
    known.replace("ngram", ["n:1"])
    assert first.available
