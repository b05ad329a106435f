"""What a verify pass costs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from bench import passes
from common.model.batch import Move, Output, Segment


class CountingRunner:
    """Keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Segment] = []

    def run(self, segments: Sequence[Segment], moves: Sequence[Move] = ()) -> list[Output]:
        self.asked += segments
        return [Output(torch.zeros(segment.logits, 3)) for segment in segments]


def test_passes_of_every_width_follow_the_same_context_in_turn() -> None:
    runner = CountingRunner()
    costs = passes.measure(runner, repeats=2)
    prefill, *checked = runner.asked
    assert (len(prefill.token_ids), prefill.start) == (passes.CONTEXT, 0)
    assert [len(each.token_ids) for each in checked[:10]] == [*passes.WIDTHS, *passes.WIDTHS]
    assert all(each.start == passes.CONTEXT and each.logits == len(each.token_ids) for each in checked)
    assert list(costs.seconds) == list(passes.WIDTHS)
    assert all(seconds > 0 for seconds in costs.seconds.values())


def test_shares_of_a_pass_add_up_to_all_of_it() -> None:
    operators = {f"operator {i}": 0.01 * i for i in range(1, 11)}
    shares = passes.shares(operators, wall=1.0)
    assert next(iter(shares)) == "operator 10"
    assert shares["operator 10"] == pytest.approx(0.1)
    assert shares["other operators"] == pytest.approx(0.01 + 0.02)
    assert shares["outside of torch"] == pytest.approx(0.45)
    assert sum(shares.values()) == pytest.approx(1.0)


def test_the_table_compares_each_width_with_one_token() -> None:
    costs = passes.PassCosts({1: 0.006, 8: 0.009}, {"mm": 0.75, "outside of torch": 0.25}, 8)
    table = passes.table("int8", costs)
    assert "8: 9.00 (1.50 ×)" in table
    assert "the pass of 8 goes: mm 75 %, outside of torch 25 %" in table
