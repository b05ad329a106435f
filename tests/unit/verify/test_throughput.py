"""Block sizes for the most tokens per second, on a simulated clock."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.unit.verify.simulation import (
    PASS,
    Always,
    Rate,
    Run,
    World,
    flat,
    in_tiles,
    simulate,
    steady,
    steep,
)
from verify_service.drafts.control.base import Choice, Outcome, Place, State
from verify_service.drafts.control.curve import through
from verify_service.drafts.control.throughput import Throughput

COSTS = {"flat": flat, "steady": steady, "steep": steep, "in tiles": in_tiles}
LEARNED = 200


def always(rate: float) -> Callable[[int], Rate]:
    return lambda session: lambda depth, position: rate


def turning(first: float, then: float, at: int, back_at: int) -> Callable[[int], Rate]:
    """Another rate between two positions."""
    return lambda session: lambda depth, position: then if at <= position < back_at else first


def policy(world: World) -> Throughput:
    """As the service starts it: with passes of a few sizes measured."""
    return Throughput(through([(2**power, world.cost(2**power)) for power in range(8)]))


def best_fixed(world: World, first: int, **options: int) -> float:
    """The speed of the best of all fixed block sizes, none included, from a step on."""
    return max(simulate(Always(size), world, **options).speed(first) for size in range(9))


def chosen(run: Run, first: int = LEARNED) -> float:
    """The mean block size, from a step on."""
    sizes = [choice.block_size for session in run.sessions for _, choice in session.chosen[first:]]
    return sum(sizes) / len(sizes)


@pytest.mark.parametrize(
    ("cost", "sessions"), [*itertools.product(["flat", "steady", "steep"], [1, 8]), ("in tiles", 1)]
)
@pytest.mark.parametrize("rate", [0.02, 0.5, 0.7, 0.9])
def test_after_200_steps_it_is_within_five_percent_of_the_best_fixed_size(
    cost: str, rate: float, sessions: int
) -> None:
    world = World(COSTS[cost], always(rate))
    run = simulate(policy(world), world, sessions=sessions)
    assert run.speed(LEARNED) >= 0.95 * best_fixed(world, LEARNED, sessions=sessions)


@pytest.mark.parametrize("sessions", [1, 8])
@pytest.mark.parametrize("cost", COSTS)
def test_useless_drafts_cost_at_most_three_percent_what_is_learned_included(cost: str, sessions: int) -> None:
    world = World(COSTS[cost], always(0.01))
    drafted = simulate(policy(world), world, sessions=sessions, steps=256)
    plain = simulate(Always(0), world, sessions=sessions, steps=256)
    assert drafted.tokens[-1] / drafted.times[-1] >= 0.97 * plain.tokens[-1] / plain.times[-1]


@pytest.mark.parametrize("cost", ["flat", "steady"])
def test_a_draft_that_is_waited_for_too_long_costs_at_most_three_percent(cost: str) -> None:
    world = World(COSTS[cost], always(0.8), delay=lambda size: 1.5 * PASS * size)
    plain = simulate(Always(0), world)
    assert simulate(policy(world), world).speed() >= 0.97 * plain.speed()


def test_a_draft_that_is_a_little_slow_gets_a_size_that_fits_its_wait() -> None:
    ahead = World(flat, always(0.8))
    slow = World(flat, always(0.8), delay=lambda size: 0.2 * PASS * size)
    assert 1 < chosen(simulate(policy(slow), slow)) < chosen(simulate(policy(ahead), ahead))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("cost", ["flat", "steady"])
def test_it_leaves_a_draft_that_becomes_useless_and_is_back_within_64_tokens(cost: str, seed: int) -> None:
    world = World(COSTS[cost], turning(0.85, 0.01, 600, 1100))
    run = simulate(policy(world), world, steps=900, seed=seed)
    [session] = run.sessions
    assert session.share_on(300, 600) > 0.9
    assert cost == "flat" or session.share_on(700, 1100) < 0.1  # a row that costs 2 % may well be tried
    assert session.share_on(1164, 1500) > 0.9


@pytest.mark.parametrize("cost", COSTS)
def test_a_draft_that_turns_useless_half_way_costs_at_most_three_percent_from_there(cost: str) -> None:
    world = World(COSTS[cost], turning(0.85, 0.01, 400, 1 << 30))
    run = simulate(policy(world), world, steps=800)
    turned = next(step for step, tokens in enumerate(run.tokens) if tokens >= 400)
    plain = simulate(Always(0), world, steps=800)
    assert run.speed(turned) >= 0.97 * plain.speed(turned)


def test_a_size_that_pays_alone_shrinks_in_a_batch_of_eight() -> None:
    world = World(steady, always(0.75))
    alone, together = (simulate(policy(world), world, sessions=count) for count in (1, 8))
    assert chosen(alone) > 3
    assert chosen(together) < chosen(alone) / 2


def test_at_costs_that_grow_with_every_row_a_batch_of_eight_goes_without() -> None:
    world = World(steep, always(0.85))
    run = simulate(policy(world), world, sessions=8)
    assert all(session.share_on(100, 10_000) < 0.05 for session in run.sessions)
    assert run.speed() >= 0.97 * simulate(Always(0), world, sessions=8).speed()


def test_in_a_batch_the_rows_go_to_the_sessions_whose_drafts_are_good() -> None:
    world = World(steady, lambda session: lambda depth, position: 0.9 if session < 4 else 0.02)
    run = simulate(policy(world), world, sessions=8)
    sizes = [sum(choice.block_size for _, choice in s.chosen[LEARNED:]) for s in run.sessions]
    assert min(sizes[:4]) > 10 * max(sizes[4:])
    assert run.speed(LEARNED) > 1.1 * best_fixed(world, LEARNED, sessions=8)


def test_costs_that_come_in_tiles_are_found_though_one_session_alone_would_not_pay() -> None:
    """Nine rows cost as much as sixteen, so either all sessions have a guess or none has."""
    world = World(lambda rows: PASS * (1 + 0.3 * (rows > 8) + 9 * (rows > 16)), always(0.85))
    measured = through([(rows, world.cost(rows)) for rows in (8, 9, 16, 17, 18)])
    run = simulate(Throughput(measured), world, sessions=8)
    assert 0.8 < chosen(run) <= 1.1
    assert run.speed(LEARNED) > 1.15 * simulate(Always(0), world, sessions=8).speed(LEARNED)


def pooled(cost: str, *, named: bool, good: float = 0.9, bad: float = 0.1, run: int = 40) -> World:
    """A pool whose two members guess in turn, each for a run of tokens, and that may say which one it was."""

    def good_guesses(position: int) -> bool:
        return position // run % 2 == 0

    def member(position: int) -> str:
        return f"source/{'good' if good_guesses(position) else 'bad'}" if named else "source"

    def rate(session: int) -> Rate:
        return lambda depth, position: good if good_guesses(position) else bad

    return World(COSTS[cost], rate, source=member)


@pytest.mark.parametrize("sessions", [1, 4])
@pytest.mark.parametrize("cost", ["flat", "steady"])
def test_a_pool_that_says_who_guesses_gets_sizes_that_suit_its_members(cost: str, sessions: int) -> None:
    runs = [
        simulate(policy(world), world, sessions=sessions, steps=1500)
        for world in (pooled(cost, named=named) for named in (False, True))
    ]
    nameless, named = (run.speed(LEARNED) for run in runs)
    assert named > 1.04 * nameless


def test_names_that_say_nothing_cost_nothing() -> None:
    members = [pooled("steady", named=named, good=0.6, bad=0.6, run=3) for named in (False, True)]
    nameless, named = (simulate(policy(world), world, steps=1500).speed(LEARNED) for world in members)
    assert named == pytest.approx(nameless, rel=0.02)


def test_a_draft_that_gives_ever_new_names_is_measured_as_a_whole() -> None:
    world = World(steady, always(0.8), source=lambda position: f"source/{position}")
    subject = policy(world)
    assert chosen(simulate(subject, world)) == pytest.approx(chosen(simulate(policy(world), world)), rel=0.25)
    known = {subject.rates("source", f"source/{position}") for position in range(1000)}
    assert len(known) <= 17


def test_a_draft_that_seldom_has_anything_to_say_is_still_asked() -> None:
    world = World(steady, always(0.7), says=0.2)
    run = simulate(policy(world), world)
    assert chosen(run) > 2
    assert run.speed(LEARNED) >= 0.95 * best_fixed(world, LEARNED)


def test_a_pass_that_hangs_once_does_not_end_drafting() -> None:
    subject = policy(World(steady, always(0.8)))
    before = chosen(simulate(subject, World(steady, always(0.8)), steps=300))
    subject.observe_pass(6, 100 * PASS)
    assert chosen(simulate(subject, World(steady, always(0.8)), steps=300), 0) > 0.7 * before


def test_drafts_that_slow_the_passes_down_by_computing_on_the_same_cores_are_left() -> None:
    """Whatever was measured before there were drafts."""
    world = World(lambda rows: steady(rows) * (1 if rows == 1 else 2.5), always(0.5))
    run = simulate(Throughput(through([(1, steady(1)), (8, steady(8))])), world)
    assert chosen(run) < 0.3
    assert run.speed(LEARNED) >= 0.97 * simulate(Always(0), world).speed(LEARNED)


def test_a_machine_that_becomes_slower_as_a_whole_changes_nothing() -> None:
    world = World(steady, always(0.7))
    subject = policy(world)
    quick = chosen(simulate(subject, world))
    slower = World(lambda rows: 3 * steady(rows), always(0.7))
    assert chosen(simulate(subject, slower)) == pytest.approx(quick, rel=0.25)


def state(position: int = 10, width: int = 1, size: int = 8) -> State:
    return State("source", size, width, batch=1, position=position)


def fed(subject: Throughput, *ranks: int | None) -> Choice:
    """What is chosen after many trees of three guesses a position, of which those of these ranks stood."""
    controller = subject.controller()
    choice = controller.choose(state(width=3))
    for rank in ranks * 20:
        subject.observe_pass(9, flat(9))
        controller.observe(Outcome(Choice(8, 3), 8, [Place(depth, "source", 3, rank) for depth in range(2)]))
        choice = controller.choose(state(width=3))
    return choice


def test_a_tree_is_wide_where_siblings_stand_and_a_chain_where_they_never_do() -> None:
    assert fed(Throughput(flat), 0, 1).tree_width == 2
    assert fed(Throughput(flat), 0, 1, 2).tree_width == 3
    assert fed(Throughput(flat), 0, 0, 0, None).tree_width == 1


def test_it_never_asks_for_more_than_the_session_may_have() -> None:
    subject = Throughput(flat)
    controller = subject.controller()
    for size in (8, 3, 1, 2):
        assert 0 < controller.choose(state(size=size)).block_size <= size


def test_a_new_session_begins_with_what_the_source_does_for_others() -> None:
    world = World(steady, always(0.01))
    subject = policy(world)
    simulate(subject, world, steps=300)
    newcomer = subject.controller()
    assert newcomer.choose(state()) == Choice()


def test_a_session_that_is_closed_is_forgotten() -> None:
    subject = Throughput(flat)
    closed = subject.controller()
    closed.choose(state())
    closed.close()
    assert closed not in subject._sessions


def test_all_go_without_guesses_once_in_a_while_and_only_once() -> None:
    subject = Throughput(flat)
    controllers = [subject.controller() for _ in range(3)]
    went_without = []
    for step in range(300):
        for controller in controllers:
            choice = controller.choose(State("source", 4, 1, batch=3, position=step))
            controller.observe(Outcome(Choice(4), 4, [Place(depth, "source", 1, 0) for depth in range(4)]))
            if not choice.block_size:
                went_without.append(step)
                assert controller.choose(State("source", 4, 1, batch=3, position=step)).block_size
        subject.observe_pass(15, flat(15))
    assert len(went_without) == 9
    assert len(set(went_without)) == 3
