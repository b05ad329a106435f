"""What each length of the wire cost, with and without drafting ahead."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from bench import markdown
from bench.wire.slowed import Spent

Cell = tuple[str, float]
"""How it was drafted, and the round trip in seconds that the wire was to add."""


_HEADER = ("drafting", "added, ms", "as measured", "tokens/s", "of those without", "wait, ms", "hidden")


def hidden(wait: float, wait_without: float, round_trip: float) -> float:
    """The part of the wire's round trip that no block was waited for: 1: all of it; 0: none.

    Args:
        wait: for a block.
        wait_without: the same when the wire adds nothing.
        round_trip: that it added. All in seconds.
    """
    return 1 - (wait - wait_without) / round_trip


def text(spent: Mapping[Cell, Spent], speeds: Mapping[Cell, Sequence[float]]) -> str:
    """
    Args:
        speeds: tokens per second, one for each round.
    """
    return markdown.table(_HEADER, _rows(spent, speeds))


def _rows(spent: Mapping[Cell, Spent], speeds: Mapping[Cell, Sequence[float]]) -> Iterator[list[str]]:
    medians = {cell: statistics.median(each) for cell, each in speeds.items()}
    for (way, wished), each in spent.items():
        base = spent[way, 0.0]
        added = each.round_trip - base.round_trip
        speed = medians[way, wished]
        yield [
            way,
            f"{1000 * wished:g}",
            f"{1000 * added:.2f}",
            f"{speed:.1f}",
            f"{speed / medians[way, 0.0]:.2f} ×",
            f"{1000 * each.wait:.2f}",
            f"{hidden(each.wait, base.wait, added):.0%}" if wished else "",
        ]
