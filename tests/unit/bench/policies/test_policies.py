"""Policies on the command line, and speed beside deviation."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from bench.measure import Run
from bench.policies import table
from bench.policies.choices import DEFAULTS, Choice


def run(tokens: int, seconds: float, steps: int, accepted: int, deviation: Any = None) -> Run:
    counters = {"steps": steps, "draft_tokens": 4 * steps, "accepted_tokens": accepted}
    return Run("qa", tokens, seconds, "", counters, deviation)


def test_a_policy_is_a_name_with_numbers() -> None:
    choice = Choice.parse("kl:delta=0.3,cap=0.5")
    assert choice.body == {"policy": {"name": "kl", "delta": 0.3, "cap": 0.5}}
    assert Choice.parse("lossless").body == {"policy": {"name": "lossless"}}
    assert [choice.label for choice in DEFAULTS[:3]] == ["lossless", "strict", "block"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("loose", "none of lossless"), ("kl:delta=wide", "are numbers"), ("kl:gamma=1", "gamma")],
)
def test_a_wrong_one_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=reason):
        Choice.parse(text)


def test_figures_are_over_all_answers() -> None:
    plain = table.figures([run(100, 2.0, 50, 50)])
    assert (plain.rate, plain.per_step, plain.acceptance, plain.strayed, plain.mean_nkl) == (
        50,
        2,
        0.25,
        0,
        0,
    )
    runs = [
        run(60, 1.0, 20, 40, {"strayed_tokens": 6, "mean_nkl": 0.1}),
        run(40, 0.25, 20, 10, {"strayed_tokens": 4, "mean_nkl": None}),
    ]
    lossy = table.figures(runs)
    assert (lossy.rate, lossy.per_step, lossy.strayed) == (80, 2.5, 0.1)
    assert lossy.mean_nkl == pytest.approx(0.08)
    text = table.text({"lossless": plain, "kl": lossy})
    assert "| kl | 80.0 | 1.60 × | 2.50 | 0.31 | 10.0 % | 0.080 |" in text
    assert "| lossless | 50.0 | 1.00 × | 2.00 | 0.25 | 0.0 % | – |" in text
