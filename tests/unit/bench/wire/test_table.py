"""How much of a round trip is hidden."""

from __future__ import annotations

import pytest

from bench.wire import table
from bench.wire.slowed import Spent, wait_per_block

SPENT = {
    ("ahead", 0.0): Spent([0.001, 0.001, 0.5], [0.0001]),
    ("ahead", 0.02): Spent([0.006], [0.0101]),
    ("in turn", 0.0): Spent([0.002], [0.0]),
    ("in turn", 0.02): Spent([0.022], [0.01]),
}
SPEEDS = {
    ("ahead", 0.0): [100.0, 90.0, 110.0],
    ("ahead", 0.02): [80.0, 75.0, 500.0],
    ("in turn", 0.0): [50.0],
    ("in turn", 0.02): [25.0],
}


@pytest.mark.parametrize(("wait", "share"), [(0.001, 1.0), (0.021, 0.0), (0.011, 0.5), (0.031, -0.5)])
def test_what_is_not_waited_for_is_hidden(wait: float, share: float) -> None:
    assert table.hidden(wait, 0.001, 0.02) == pytest.approx(share)


def test_each_way_of_drafting_is_compared_with_itself_without_delay() -> None:
    lines = table.text(SPENT, SPEEDS).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert rows == [
        ["ahead", "0", "0.00", "100.0", "1.00 ×", "1.00", ""],
        ["ahead", "20", "20.00", "80.0", "0.80 ×", "6.00", "75%"],
        ["in turn", "0", "0.00", "50.0", "1.00 ×", "2.00", ""],
        ["in turn", "20", "20.00", "25.0", "0.50 ×", "22.00", "0%"],
    ]


def test_the_wait_for_a_block_counts_those_that_came_empty() -> None:
    names = ("step_seconds_sumwait", "blocks_totalverified", "blocks_totalempty")
    keys = ("tandem_verify_" + names[0], "tandem_draft_" + names[1], "tandem_draft_" + names[2])
    before, after = dict(zip(keys, (1.0, 10, 3), strict=True)), dict(zip(keys, (1.5, 14, 4), strict=True))
    assert wait_per_block(before, after) == pytest.approx(0.1)
    assert wait_per_block(after, after) == 0.0
