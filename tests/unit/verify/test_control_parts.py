"""What the controllers are made of."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from common.draft_types import Block
from verify_service.drafts.control.base import Choice, Controller, Outcome, Place, State
from verify_service.drafts.control.curve import Curve, monotone, through
from verify_service.drafts.control.fixed import Fixed
from verify_service.drafts.control.outcome import followed, places
from verify_service.drafts.control.probing import Probing
from verify_service.drafts.control.rates import SessionRates, SourceRates, guesses
from verify_service.drafts.control.registry import make
from verify_service.drafts.control.throughput import Throughput
from verify_service.drafts.control.window import Window

# 0 ─┬─ 1 ── 3
#    └─ 2 ── 4
TREE = Block(1, 10, token_ids=(5, 6, 7, 8, 9), parents=(-1, 0, 0, 1, 2), source="s")
CHAIN = Block(1, 10, token_ids=(5, 6, 7), source="s")


def line(slope: float) -> Curve:
    return Curve(lambda count: 1 + slope * count, memory=50)


def test_the_monotone_fit_is_that_of_scipy() -> None:
    chance = random.Random(4)
    for _ in range(50):
        count = chance.randint(1, 12)
        points = [(float(x), chance.random() + x / 10, chance.random() + 0.1) for x in range(count)]
        expected = isotonic_regression([y for _, y, _ in points], weights=[w for _, _, w in points]).x
        assert np.allclose([y for _, y in monotone(points)], expected)


def test_before_anything_is_seen_a_curve_is_its_shape() -> None:
    assert line(0.5).at(4) == 3
    assert Curve(lambda count: count, memory=10, scale=0.0).at(4) == 0


def test_a_curve_learns_what_it_sees_and_is_linear_in_between() -> None:
    curve = line(0.1)
    for _ in range(300):
        curve.observe(2, 10.0)
        curve.observe(6, 20.0)
    assert curve.at(2) == pytest.approx(10, rel=0.05)
    assert curve.at(4) == pytest.approx(15, rel=0.05)
    assert curve.at(6) == pytest.approx(20, rel=0.05)


def test_beyond_what_it_saw_a_curve_goes_on_as_its_shape_does_in_proportion() -> None:
    curve = line(1.0)
    for _ in range(100):
        curve.observe(1, 20.0)
    assert curve.at(9) == pytest.approx(100, rel=0.05)


def test_a_curve_never_falls() -> None:
    chance = random.Random(2)
    curve = line(0.0)
    for _ in range(500):
        rows = chance.choice([1, 2, 3, 5, 17, 18, 40, 90, 200])
        curve.observe(rows, chance.random())
    found = [curve.at(rows / 2) for rows in range(2, 500)]
    assert found == sorted(found)


def test_what_was_not_seen_for_long_is_believed_to_have_changed_with_the_rest() -> None:
    curve = line(0.0)
    curve.observe(8, 50.0)
    for _ in range(500):
        curve.observe(1, 2.0)
    assert curve.at(8) == pytest.approx(2, rel=0.2)


def test_a_hiccup_counts_as_three_times_what_was_expected() -> None:
    curve = Curve(lambda count: 1.0, memory=10, surprise=3.0)
    for _ in range(50):
        curve.observe(1, 1.0)
    curve.observe(1, 1000.0)
    assert curve.at(1) < 1.3


def test_a_shape_through_points_goes_on_with_its_last_slope() -> None:
    shape = through([(1, 2.0), (2, 3.0), (4, 3.0), (8, 7.0)])
    assert [shape(rows) for rows in (0, 1, 1.5, 3, 6, 8, 10)] == [2, 2, 2.5, 3, 5, 7, 9]


@pytest.mark.parametrize(
    ("nodes", "short", "known", "expected"),
    [
        ((), False, 1, [(0, 1, None)]),
        ((0,), False, 2, [(0, 1, 0), (1, 1, None)]),
        ((0, 1, 2), False, 4, [(0, 1, 0), (1, 1, 0), (2, 1, 0)]),
        ((0, 1, 2), True, 4, [(0, 1, 0), (1, 1, 0), (2, 1, 0), (3, 0, None)]),
        ((0, 1), False, 2, [(0, 1, 0), (1, 1, 0)]),
    ],
    ids=["refused at once", "refused later", "all stand", "all of a short one", "no more known"],
)
def test_the_places_of_a_chain(
    nodes: tuple[int, ...], short: bool, known: int, expected: list[tuple[int, int, int | None]]
) -> None:
    found = places(CHAIN, nodes, short=short, known=known)
    assert [(place.depth, place.guesses, place.accepted) for place in found] == expected


def test_the_places_of_a_tree_tell_the_rank_that_stood() -> None:
    found = places(TREE, (0, 2, 4), short=False, known=4)
    assert found == [Place(0, "s", 1, 0), Place(1, "s", 2, 1), Place(2, "s", 1, 0)]


def test_a_block_with_nothing_is_a_place_without_guesses() -> None:
    assert places(Block(1, 10, ()), (), short=True, known=1) == [Place(0, "", 0, None)]


def test_guesses_that_the_target_said_too_are_found_along_the_tree() -> None:
    assert followed(TREE, [5, 7, 9, 1]) == (0, 2, 4)
    assert followed(TREE, [5, 1]) == (0,)
    assert followed(TREE, [1]) == ()
    assert followed(CHAIN, [5, 6, 7, 8]) == (0, 1, 2)


def seen(choice: Choice, accepted: int, offered: int | None = None) -> Outcome:
    """A chain of which so many guesses stood."""
    offered = choice.block_size if offered is None else offered
    found = [Place(depth, "s", 1, 0) for depth in range(accepted)]
    if accepted < choice.block_size:
        found.append(Place(accepted, "s", int(accepted < offered), None))
    return Outcome(choice, offered, found)


def rates_after(*accepted: int, size: int = 4, offered: int | None = None) -> SessionRates:
    rates = SessionRates(SourceRates(), size)
    for count in accepted:
        rates.observe(seen(Choice(size), count, offered))
    return rates


def test_rates_are_those_of_a_depth_given_the_ones_before() -> None:
    rates = rates_after(*[0, 2] * 60)
    first, second, third, _ = rates.depths(4)
    assert first == pytest.approx(0.5, abs=0.06)
    assert second > 0.9
    assert third < 0.1


def test_a_depth_that_was_never_tried_is_believed_to_be_as_the_source_is_there() -> None:
    source = SourceRates()
    for _ in range(200):
        source.observe(seen(Choice(3), 2))
    first, second, third, fourth = SessionRates(source, 4).depths(4)
    assert min(first, second) > 0.9
    assert third < 0.1
    assert fourth == pytest.approx(third)


def test_a_change_is_noticed_within_a_few_blocks() -> None:
    rates = rates_after(*[4] * 60)
    assert rates.depths(1)[0] > 0.95
    for _ in range(8):
        rates.observe(seen(Choice(4), 0))
    assert rates.depths(1)[0] < 0.35


def test_guesses_of_a_chain_are_worth_the_product_of_the_rates() -> None:
    rates = rates_after(*[2, 4, 0, 3] * 10)
    expected = np.cumprod(rates.depths(4))
    assert [guess.worth for guess in guesses(rates, 4, 1)] == pytest.approx(list(expected))
    assert {guess.rank for guess in guesses(rates, 4, 1)} == {0}


def test_a_draft_that_has_little_to_say_adds_few_rows() -> None:
    found = guesses(rates_after(*[2] * 60, offered=2), 4, 1)
    assert [round(guess.rows, 1) for guess in found] == [1, 1, 0, 0]


def test_guesses_of_a_tree_are_the_most_valuable_ones() -> None:
    rates = SessionRates(SourceRates(), 6)
    for rank in [0, 0, 1, None] * 30:
        rates.observe(Outcome(Choice(6, 2), 6, [Place(0, "s", 2, rank)]))
    chain, tree = guesses(rates, 6, 1), guesses(rates, 6, 2)
    assert sum(guess.worth for guess in tree) > sum(guess.worth for guess in chain)
    assert sum(guess.worth for guess in tree[:2]) == pytest.approx(0.75, abs=0.1)
    assert all(guess.worth <= tree[0].worth for guess in tree)
    assert len(tree) == 6


def test_the_gap_between_probes_doubles_up_to_a_bound_and_closes_after_a_good_one() -> None:
    probing = Probing()
    probes = []
    for position in range(200):
        if probing.due(position):
            probes.append(position)
            probing.observe(found=False)
    gaps = np.diff(probes)
    assert list(gaps[:3]) == [6, 12, 24]
    assert max(gaps) < 32
    probing.observe(found=True)
    assert next(p for p in range(200, 300) if probing.due(p)) - 200 <= 2


def probed(probing: Probing, found: bool, drafting: float, tokens: int) -> int:
    """How many probes there are in so many tokens of 10 ms."""
    count = 0
    for position in range(tokens):
        if probing.due(position, 0.010):
            count += 1
            probing.observe(found, drafting)
    return count


def test_probes_that_stand_though_drafts_do_not_pay_become_as_rare_as_others() -> None:
    assert probed(Probing(), found=True, drafting=0.0, tokens=2000) < 10 + 2000 / 24


def test_drafting_for_probes_takes_a_small_part_of_the_time_whatever_they_find() -> None:
    for found in (True, False):
        count = probed(Probing(), found, drafting=0.006, tokens=5000)
        assert 0.5 < count * 0.006 / (0.015 * 5000 * 0.010) < 1.1
    assert probed(Probing(), found=True, drafting=60.0, tokens=5000) > 5000 / 300


def judged(controller: Controller, size: int, acceptance: float, blocks: int) -> int:
    """The block size after so many blocks of which a share stood."""
    choice = controller.choose(State("s", size, 1, 1, 0))
    for _ in range(blocks):
        accepted = math.floor(acceptance * choice.block_size + 0.5)
        controller.observe(seen(choice, accepted))
        choice = controller.choose(State("s", size, 1, 1, 0))
    return choice.block_size


def test_the_window_shrinks_grows_and_stays() -> None:
    assert judged(Window().controller(), 8, 0.0, 8) == 3
    assert judged(Window().controller(), 8, 1.0, 8) == 5
    assert judged(Window().controller(), 8, 0.75, 40) == 4
    assert judged(Window().controller(), 6, 1.0, 200) == 6


def test_the_window_goes_down_to_nothing_and_comes_back_when_a_probe_stands() -> None:
    controller = Window().controller()
    assert judged(controller, 8, 0.0, 32) == 0
    probe = next(c for p in range(40) if (c := controller.choose(State("s", 8, 1, 1, p))).block_size)
    assert probe == Choice(1, 1, probe=True)
    controller.observe(seen(probe, 0))
    assert controller.choose(State("s", 8, 1, 1, 41)) in {Choice(), probe}
    controller.observe(seen(probe, 1))
    assert controller.choose(State("s", 8, 1, 1, 42)) == Choice(1, 1)


def test_fixed_asks_for_all_there_may_be_whatever_happens() -> None:
    controller = Fixed().controller()
    controller.observe(seen(Choice(4), 0))
    assert controller.choose(State("s", 4, 3, 1, 0)) == Choice(4, 3)


def test_policies_are_found_by_name() -> None:
    shape = through([(1, 1.0), (2, 1.1)])
    assert isinstance(make("throughput", shape), Throughput)
    assert isinstance(make("window", shape), Window)
    assert isinstance(make("fixed", shape), Fixed)
