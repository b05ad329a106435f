from __future__ import annotations

import random

import pytest
from prometheus_client import CollectorRegistry

from common.errors import Unavailable
from common.types import RouteRequest
from router.classifier import PROMPT_CLASSES, Classification
from router.metrics import Metrics
from router.policy import LeastLoaded
from router.registry import Registry, Report
from router.router import Router
from tests.unit.router.fakes import Clock, endpoint, registry

QUESTION = RouteRequest("r", "model", "Who wrote Faust?", 16)


def measured(known: Registry) -> tuple[Router, CollectorRegistry]:
    exposed = CollectorRegistry()
    policy = LeastLoaded(known, lambda _: (), max_drafts=2, rng=random.Random(1))
    answer = Classification((("short_qa", 0.8), ("chat", 0.1), ("rag", 0.05)))
    return Router(lambda head, characters: answer, policy, Metrics(known, exposed)), exposed


def test_every_class_is_counted_from_zero() -> None:
    _, exposed = measured(registry(["v:1"]))
    for prompt_class in PROMPT_CLASSES:
        labels = {"prompt_class": prompt_class}
        assert exposed.get_sample_value("tandem_router_routes_total", labels) == 0


def test_a_route_counts_its_class_and_the_time_it_took() -> None:
    known = registry(["v:1"])
    endpoint(known, "v:1").report = Report(ready=True)
    router, exposed = measured(known)
    assert router.route(QUESTION).prompt_class == "short_qa"
    assert exposed.get_sample_value("tandem_router_routes_total", {"prompt_class": "short_qa"}) == 1
    assert exposed.get_sample_value("tandem_router_decision_seconds_count") == 1
    assert 0 < (exposed.get_sample_value("tandem_router_decision_seconds_sum") or 0) < 1


def test_a_route_without_a_plan_counts_its_time_only() -> None:
    router, exposed = measured(registry(["v:1"]))
    with pytest.raises(Unavailable):
        router.route(QUESTION)
    assert exposed.get_sample_value("tandem_router_routes_total", {"prompt_class": "short_qa"}) == 0
    assert exposed.get_sample_value("tandem_router_decision_seconds_count") == 1


def test_readiness_and_breaker_are_those_of_the_moment_of_the_scrape() -> None:
    clock = Clock()
    known = registry(["v:1"], clock, failures=1, ngram=["n:1"])
    _, exposed = measured(known)
    draft, labels = endpoint(known, "n:1"), {"pool": "ngram", "address": "n:1"}

    def scraped() -> tuple[float | None, float | None]:
        return (
            exposed.get_sample_value("tandem_router_endpoint_ready", labels),
            exposed.get_sample_value("tandem_router_breaker_state", labels),
        )

    assert scraped() == (0, 0)
    draft.report = Report(ready=True)
    assert scraped() == (1, 0)
    draft.breaker.failed()
    assert scraped() == (0, 2)
    clock.now += 2
    assert scraped() == (0, 1)
