from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
import structlog

from common.errors import Unavailable
from common.switches import State
from common.types import DraftEndpoint, Plan, RouteRequest
from router.breaker import Outcome
from router.drafting import Drafting
from router.learning.bandit import Bandit
from router.policy import Planner
from router.registry import Registry, Report
from router.steering import Steering
from tests.unit.router.fakes import Clock, endpoint, registry


class Choosing:
    """A planner asked about prompts of a class that is certain."""

    def __init__(
        self,
        known: Registry,
        pools_of: Callable[[str], Sequence[str]],
        *,
        max_drafts: int = 2,
        log: structlog.typing.FilteringBoundLogger | None = None,
        steering: Steering = Steering(),
        seed: int = 7,
    ) -> None:
        rng = random.Random(seed)
        drafting = Drafting(pools_of, Bandit(), steering=lambda: steering, rng=rng)
        self._planner = Planner(
            known, drafting, max_drafts=max_drafts, steering=lambda: steering, rng=rng, log=log
        )

    def choose(
        self,
        prompt_class: str,
        *,
        speculation_disabled: bool = False,
        prefix_key: str = "",
        avoid: tuple[str, ...] = (),
    ) -> Plan:
        request = RouteRequest("r", "m", "", 0, speculation_disabled, prefix_key, avoid)
        return self._planner.plan(request, [(prompt_class, 1.0)])


def policy(
    known: Registry,
    pools: Sequence[str] = ("ngram", "model"),
    classes: dict[str, Sequence[str]] | None = None,
    max_drafts: int = 2,
    log: structlog.typing.FilteringBoundLogger | None = None,
) -> Choosing:
    return Choosing(known, lambda name: (classes or {}).get(name, pools), max_drafts=max_drafts, log=log)


def all_ready(known: Registry, load: int = 0, capacity: int = 0) -> Registry:
    for each in known:
        each.report = Report(ready=True, load=load, capacity=capacity)
    return known


def addresses(plan: Plan) -> list[str]:
    return [draft.address for draft in plan.drafts]


def test_it_takes_the_least_loaded_ready_verify_replica() -> None:
    known = all_ready(registry(["v1:1", "v2:1", "v3:1"]), load=5)
    endpoint(known, "v2:1").report = Report(ready=True, load=1)
    endpoint(known, "v3:1").report = Report(ready=False)
    assert policy(known).choose("chat").verify_address == "v2:1"


def test_it_takes_the_least_loaded_replica_of_the_first_pool_then_its_others_then_the_next_pools() -> None:
    known = all_ready(registry(["v:1"], ngram=["n1:1", "n2:1"], model=["m1:1", "m2:1"]))
    endpoint(known, "n1:1").report = Report(ready=True, load=4)
    endpoint(known, "m1:1").report = Report(ready=True, load=1)
    plan = policy(known, max_drafts=4).choose("chat")
    assert addresses(plan) == ["n2:1", "n1:1", "m2:1", "m1:1"]
    assert plan.drafts[0] == DraftEndpoint("ngram", "n2:1")
    assert addresses(policy(known, max_drafts=1).choose("chat")) == ["n2:1"]


def test_a_class_uses_its_own_order_of_pools_and_others_the_configured_one() -> None:
    known = all_ready(registry(["v:1"], ngram=["n:1"], model=["m:1"]))
    subject = policy(known, classes={"math": ["model"], "code": ["model", "ngram"]})
    assert addresses(subject.choose("math")) == ["m:1"]
    assert addresses(subject.choose("code")) == ["m:1", "n:1"]
    assert addresses(subject.choose("chat")) == ["n:1", "m:1"]


def test_a_burst_between_two_polls_spreads_evenly_over_replicas() -> None:
    known = all_ready(registry(["v1:1", "v2:1", "v3:1"], ngram=["n1:1", "n2:1"]))
    subject = policy(known)
    plans = [subject.choose("chat") for _ in range(60)]
    assert Counter(plan.verify_address for plan in plans) == {"v1:1": 20, "v2:1": 20, "v3:1": 20}
    assert Counter(addresses(plan)[0] for plan in plans) == {"n1:1": 30, "n2:1": 30}


def test_a_burst_fills_up_the_less_loaded_replica_first() -> None:
    known = all_ready(registry(["v1:1", "v2:1"]))
    endpoint(known, "v1:1").report = Report(ready=True, load=10)
    subject = policy(known)
    chosen = [subject.choose("chat").verify_address for _ in range(14)]
    assert chosen[:10] == ["v2:1"] * 10
    assert Counter(chosen[10:]) == {"v1:1": 2, "v2:1": 2}


def test_ties_are_broken_at_random_so_that_routers_do_not_march_in_step() -> None:
    def first_choice(seed: int) -> str:
        known = all_ready(registry(["v1:1", "v2:1"]))
        subject = Choosing(known, lambda _: (), seed=seed)
        return subject.choose("chat").verify_address

    assert {first_choice(seed) for seed in range(20)} == {"v1:1", "v2:1"}


def test_only_the_first_draft_of_a_plan_is_charged_with_its_load() -> None:
    known = all_ready(registry(["v:1"], ngram=["n:1"], model=["m:1"]))
    policy(known).choose("chat")
    assert [endpoint(known, address).load for address in ("v:1", "n:1", "m:1")] == [1, 1, 0]


def test_an_endpoint_that_missed_its_last_poll_is_the_last_resort_but_still_one() -> None:
    known = all_ready(registry(["v1:1", "v2:1"]))
    endpoint(known, "v1:1").breaker.record(Outcome.FAILED)
    endpoint(known, "v2:1").report = Report(ready=True, load=30)
    assert policy(known).choose("chat").verify_address == "v2:1"
    endpoint(known, "v2:1").report = Report(ready=False)
    assert policy(known).choose("chat").verify_address == "v1:1"


def test_an_endpoint_whose_breaker_is_open_or_half_open_is_not_planned() -> None:
    clock = Clock()
    known = all_ready(registry(["v:1"], clock, failures=1, ngram=["n:1"], model=["m:1"]))
    failing = endpoint(known, "n:1").breaker
    failing.record(Outcome.FAILED)
    assert addresses(policy(known).choose("chat")) == ["m:1"]
    clock.now += 2
    assert addresses(policy(known).choose("chat")) == ["m:1"]
    failing.record(Outcome.ANSWERED)
    assert addresses(policy(known).choose("chat")) == ["n:1", "m:1"]


def test_a_full_draft_is_left_out_and_a_full_verify_replica_queues() -> None:
    known = all_ready(registry(["v:1"], ngram=["n:1"], model=["m:1"]), load=8, capacity=8)
    endpoint(known, "m:1").report = Report(ready=True, load=7, capacity=8)
    subject = policy(known)
    assert addresses(subject.choose("chat")) == ["m:1"]
    assert addresses(subject.choose("chat")) == []


def test_a_draft_of_another_vocabulary_is_not_planned_and_that_is_logged_once() -> None:
    sink = structlog.testing.CapturingLogger()
    log: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        sink, processors=[], wrapper_class=structlog.make_filtering_bound_logger(0)
    )
    known = all_ready(registry(["v:1"], ngram=["n:1"], model=["m:1"]))
    endpoint(known, "v:1").report = Report(ready=True, fingerprint="llama")
    endpoint(known, "n:1").report = Report(ready=True, fingerprint="qwen")
    endpoint(known, "m:1").report = Report(ready=True, fingerprint="llama")
    subject = policy(known, log=log)
    assert [addresses(subject.choose("chat")) for _ in range(3)] == [["m:1"]] * 3
    assert [call.method_name for call in sink.calls] == ["warning"]
    assert sink.calls[0].kwargs["draft"] == "ngram@n:1"
    assert sink.calls[0].kwargs["verify_fingerprint"] == "llama"


def test_a_fingerprint_that_is_not_known_yet_does_not_count_as_a_mismatch() -> None:
    known = all_ready(registry(["v:1"], ngram=["n:1"]))
    endpoint(known, "n:1").report = Report(ready=True, fingerprint="llama")
    assert addresses(policy(known).choose("chat")) == ["n:1"]


def test_without_a_ready_verify_replica_it_raises_unavailable_and_says_so() -> None:
    known = registry(["v1:1", "v2:1"], ngram=["n:1"])
    with pytest.raises(Unavailable, match="no verify replica is ready, of 2 known"):
        policy(known).choose("chat")


def test_without_a_draft_the_plan_is_plain_decoding_and_says_why() -> None:
    known = registry(["v:1"], ngram=["n:1"])
    endpoint(known, "v:1").report = Report(ready=True)
    plan = policy(known).choose("chat")
    assert plan.drafts == ()
    assert plan.reason.endswith("no draft available in ngram, model: plain decoding")
    plan = policy(known, classes={"chat": []}).choose("chat")
    assert plan.reason.endswith("no draft pool for this class: plain decoding")


def test_a_request_that_disables_speculation_gets_no_drafts_and_charges_none() -> None:
    known = all_ready(registry(["v:1"], ngram=["n:1"]))
    plan = policy(known).choose("chat", speculation_disabled=True)
    assert plan.drafts == ()
    assert plan.reason.endswith("speculation disabled by the request")
    assert endpoint(known, "n:1").load == 0


def test_the_reason_tells_the_class_the_loads_and_the_fallback() -> None:
    known = registry(["10.0.0.1:50052"], ngram=["10.0.0.2:50053"], model=["10.0.0.3:50053"])
    endpoint(known, "10.0.0.1:50052").report = Report(ready=True, load=3, capacity=32)
    endpoint(known, "10.0.0.2:50053").report = Report(ready=True, load=2)
    assert policy(known).choose("math").reason == (
        "class math 1.00; verify 10.0.0.1:50052 has 3 of 32 in flight; "
        "draft ngram@10.0.0.2:50053 has 2 sessions"
    )
    endpoint(known, "10.0.0.3:50053").report = Report(ready=True)
    assert policy(known).choose("math").reason.endswith("has 3 sessions, then model@10.0.0.3:50053")


def test_prompts_that_begin_alike_are_verified_at_one_replica() -> None:
    known = all_ready(registry(["v1:1", "v2:1", "v3:1"]), load=20)
    subject = policy(known)
    chosen = {subject.choose("chat", prefix_key="the same").verify_address for _ in range(4)}
    assert len(chosen) == 1


def test_a_replica_that_just_failed_the_request_is_the_last_resort() -> None:
    known = all_ready(registry(["v1:1", "v2:1"]))
    subject = policy(known)
    for _ in range(10):
        assert subject.choose("chat", prefix_key="k", avoid=("v1:1",)).verify_address == "v2:1"
    endpoint(known, "v2:1").report = Report(ready=False)
    assert subject.choose("chat", avoid=("v1:1",)).verify_address == "v1:1"


def test_what_is_steered_is_in_the_plan() -> None:
    known = all_ready(registry(["v:1"], ngram=["n:1"]))
    steering = Steering({"code": State.SHADOW}, largest_block={("chat", "ngram"): 3})
    subject = Choosing(known, lambda _: ("ngram",), steering=steering)
    chat, code = subject.choose("chat"), subject.choose("code")
    assert (chat.largest_block, chat.shadow) == (3, False)
    assert (code.largest_block, code.shadow) == (0, True)
    assert "switched to shadow" in code.reason


def test_a_plan_without_drafts_has_nothing_to_watch() -> None:
    known = all_ready(registry(["v:1"]))
    steering = Steering({"all": State.SHADOW})
    assert not Choosing(known, lambda _: ("ngram",), steering=steering).choose("chat").shadow
