"""Drafts that go bad and get well again."""

from __future__ import annotations

import json
import random

import pytest

from router.autopilot.actions import Kind
from router.autopilot.autopilot import Autopilot
from router.autopilot.limits import Limits
from tests.unit.router.autopilot.samples import Traffic, record

PAIR = ("chat", "ngram")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("acceptance", [0.7, 0.3])
def test_a_draft_that_turns_useless_is_off_within_50_requests_and_back_within_200_of_recovery(
    acceptance: float, seed: int
) -> None:
    traffic = Traffic(seed=seed)
    traffic.serve(300, acceptance, 140)
    assert traffic.kinds() == []
    broken_ms = traffic.now_ms
    traffic.serve(300, 0.01, 97)
    assert traffic.after(Kind.PLAIN, broken_ms) <= 50
    assert Kind.RETURN not in traffic.kinds()
    well_ms = traffic.now_ms
    traffic.serve(200, acceptance, 140)
    assert traffic.after(Kind.RETURN, well_ms) <= 200
    assert traffic.kinds() == [Kind.PLAIN, Kind.RETURN]


def test_one_special_token_moved_is_noticed_within_100_requests() -> None:
    """Where the fingerprint does not tell: guesses after the first are off by a token."""
    traffic = Traffic(seed=3)
    traffic.serve(200, 0.7, 140)
    moved_ms = traffic.now_ms
    traffic.serve(100, 0.04, 96)
    assert traffic.after(Kind.PLAIN, moved_ms) <= 100


def test_a_draft_that_pays_is_left_alone_whatever_its_acceptance() -> None:
    traffic = Traffic()
    traffic.serve(400, 0.2, 120)
    assert traffic.actions == []


def test_a_draft_that_is_slower_than_none_rests_and_is_tried_again_ever_later() -> None:
    limits = Limits(rest_seconds=100, longest_rest_seconds=300)
    traffic = Traffic(Autopilot(lambda _: ("ngram",), limits), seed=1)
    traffic.serve(2500, 0.7, 80)
    plain = [action.at_ms for action in traffic.actions if action.kind is Kind.PLAIN]
    back = [action.at_ms for action in traffic.actions if action.kind is Kind.RETURN]
    rests = [end - begin for begin, end in zip(plain, back, strict=False)]
    assert [rest // 100_000 for rest in rests[:4]] == [1, 2, 3, 3]
    assert "slower" in traffic.actions[0].reason


def test_another_pool_takes_over_where_there_is_one() -> None:
    autopilot = Autopilot(lambda _: ("ngram", "model"))
    traffic = Traffic(autopilot)
    traffic.serve(100, 0.7, 140)
    traffic.serve(40, 0.0, 97)
    assert traffic.kinds() == [Kind.SWITCH]
    assert autopilot.pairs[PAIR].rest is not None


def test_blocks_are_shortened_where_the_draft_does_not_pay_and_guesses_fail() -> None:
    traffic = Traffic(seed=2)
    traffic.serve(75, 0.5, 101, noise=0.02)
    first = traffic.actions[0]
    assert first.kind is Kind.SHRINK
    assert first.largest_block == 4
    assert "acceptance" in first.reason


def test_shorter_blocks_that_do_not_help_are_taken_back_and_not_tried_again_soon() -> None:
    traffic = Traffic(seed=2)
    traffic.serve(75, 0.5, 101, noise=0.02)
    shortened = len(traffic.actions)
    traffic.serve(25, 0.5, 98.5, noise=0.02)
    assert traffic.actions[shortened].kind is Kind.GROW
    assert traffic.autopilot.pairs[PAIR].largest_block == 0
    assert traffic.autopilot.pairs[PAIR].patience == 1
    known = len(traffic.actions)
    traffic.serve(10, 0.5, 98.5, noise=0.02)
    assert len(traffic.actions) == known


def test_a_text_that_the_target_finds_unlikely_counts_as_so_much_slower() -> None:
    autopilot = Autopilot(lambda _: ("ngram",))
    for _ in range(30):
        autopilot.learn(record(None, rate=100, scored_tokens=80, log_probability=-80 * 1.0))
        autopilot.learn(record(rate=120, scored_tokens=80, log_probability=-80 * 1.4))
    (action,) = autopilot.decide(1000)
    assert action.kind is Kind.PLAIN
    assert action.reason.startswith("quality")


def test_drafts_that_mean_something_else_ask_for_training_once() -> None:
    autopilot = Autopilot(lambda _: ("ngram",))
    for number in range(40):
        autopilot.learn(record(None, rate=100))
        autopilot.learn(record(rate=101, acceptance=0.95, consistency=0.6, rng=random.Random(number)))
    assert [action.kind for action in autopilot.trainings(1000, [])] == [Kind.RETRAIN]
    assert autopilot.trainings(2000, []) == []


def test_giving_up_a_draft_asks_for_training() -> None:
    traffic = Traffic()
    traffic.serve(100, 0.7, 140)
    traffic.serve(40, 0.0, 97)
    assert [action.kind for action in traffic.actions] == [Kind.PLAIN, Kind.RETRAIN]


def test_nothing_is_done_on_few_answers() -> None:
    traffic = Traffic()
    traffic.serve(15, 0.0, 50)
    assert traffic.actions == []


def test_actions_are_rate_limited() -> None:
    autopilot = Autopilot(lambda _: ("ngram",), Limits(actions_per_minute=3))
    for number in range(10):
        for _ in range(30):
            autopilot.learn(record(f"pool-{number}", 0.0, 90))
    assert len(autopilot.decide(1000)) == 3
    assert autopilot.decide(2000) == []
    for number in range(10):
        autopilot.learn(record(f"pool-{number}", 0.0, 90))
    assert len(autopilot.decide(62_000)) == 3


def test_what_is_in_force_can_be_undone_by_hand_and_is_left_alone_then() -> None:
    traffic = Traffic()
    traffic.serve(100, 0.7, 140)
    traffic.serve(40, 0.0, 97)
    assert traffic.autopilot.release("chat", "ngram", traffic.now_ms) is not None
    assert traffic.autopilot.pairs[PAIR].rest is None
    known = len(traffic.actions)
    traffic.serve(100, 0.0, 97)
    assert len(traffic.actions) == known
    assert traffic.autopilot.release("chat", "ngram", traffic.now_ms) is None
    assert traffic.autopilot.release("chat", "nobody", traffic.now_ms) is None


def test_another_router_takes_over_what_is_in_force() -> None:
    traffic = Traffic(seed=4)
    traffic.serve(200, 0.7, 140)
    traffic.serve(60, 0.0, 97)
    heir = Autopilot(lambda _: ("ngram",))
    heir.adopt(json.loads(json.dumps(traffic.autopilot.export())))
    assert heir.export() == traffic.autopilot.export()
    inherited = Traffic(heir, seed=5, now_ms=traffic.now_ms)
    inherited.serve(200, 0.7, 140)
    assert inherited.kinds() == [Kind.RETURN]


def test_answers_from_before_an_action_do_not_count_for_the_time_after() -> None:
    traffic = Traffic()
    traffic.serve(100, 0.7, 140)
    traffic.serve(40, 0.0, 97)
    heir = Autopilot(lambda _: ("ngram",))
    for _ in range(50):
        heir.learn(record(acceptance=0.9, shadow=True, created_ms=1))
    heir.adopt(traffic.autopilot.export())
    assert heir.decide(traffic.now_ms) == []
    assert len(heir.pairs[PAIR].watched) == 0


def test_what_another_router_ended_is_ended_here_too() -> None:
    heir = Autopilot(lambda _: ("ngram",))
    traffic = Traffic(heir)
    traffic.serve(100, 0.7, 140)
    traffic.serve(40, 0.0, 97)
    heir.adopt({})
    assert heir.pairs[PAIR].rest is None


def test_pairs_are_bounded() -> None:
    autopilot = Autopilot(lambda _: ())
    for number in range(1100):
        autopilot.learn(record(f"pool-{number}"))
    assert len(autopilot.pairs) == 1024
