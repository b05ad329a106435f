"""Ways of working are told apart by the tokens per second they make."""

from __future__ import annotations

import random

import pytest

from verify_service.drafts.control.trial import Trial


def shares(speeds: list[float], steps: int, *, noise: float = 0.0, trial: Trial | None = None) -> list[float]:
    """What part of ``steps`` was worked in each way; a way makes so many tokens a second."""
    trial, chance = trial or Trial(len(speeds)), random.Random(0)
    counts = [0] * len(speeds)
    for _ in range(steps):
        counts[trial.way] += 1
        tokens = chance.choice((1, 2, 3, 6)) if noise else 2
        trial.observe(tokens, tokens / speeds[trial.way] * (1 + noise * chance.uniform(-1, 1)))
    return [count / steps for count in counts]


def test_the_fastest_way_is_kept() -> None:
    assert shares([100, 110, 150], 20_000, noise=0.5)[2] > 0.9


@pytest.mark.parametrize("speeds", [[100, 80], [100, 100], [100, 101, 70]])
def test_the_first_way_is_kept_where_no_other_brings_two_per_cent(speeds: list[float]) -> None:
    assert shares(speeds, 20_000)[0] > 0.9


def test_a_way_that_halves_the_speed_costs_less_than_two_per_cent_in_the_long_run() -> None:
    trial = Trial(2)
    shares([100, 50], 10_000, trial=trial)
    part = shares([100, 50], 50_000, trial=trial)[1]
    assert part < 0.02


def test_a_way_that_halves_the_speed_soon_costs_less_than_three_per_cent() -> None:
    trial = Trial(2)
    shares([100, 50], 1_000, trial=trial)
    assert shares([100, 50], 2_000, noise=0.3, trial=trial)[1] < 0.03


def test_a_way_that_begins_to_pay_is_found() -> None:
    trial = Trial(2)
    shares([100, 50], 10_000, trial=trial)
    shares([100, 150], 10_000, trial=trial)
    assert trial.best == 1


def test_the_first_steps_of_an_epoch_do_not_count() -> None:
    trial, speeds = Trial(2), [100.0, 50.0]
    last, since = trial.way, 0
    for _ in range(5_000):
        since = since + 1 if trial.way == last else 0
        last = trial.way
        trial.observe(2, 2 / (1000 if since < 3 and trial.way == 1 else speeds[trial.way]))
    assert trial.best == 0


def test_with_one_way_there_is_nothing_to_try() -> None:
    assert shares([100], 1_000) == [1]
