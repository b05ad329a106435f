"""First-time work done before the first request, and what a pass costs meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator

from common.model.batch import Runner, Segment
from common.model.block_manager import BLOCK_SIZE, BlockManager
from verify_service.drafts.control.curve import Shape, through

_MOST_ROWS = 128  # a block of guesses for each sequence of a batch; more would keep a start waiting
_TIMES = 3


def warm_up(runner: Runner, most_rows: int) -> Shape:
    """A prefill, then passes of 1, 2, 4 … rows after it, so that no request pays for first-time work.

    Returns:
        Seconds by rows of a pass, the best of a few each: what is believed until requests have shown better.
    """
    _run(runner, 0, BLOCK_SIZE)
    return through([(rows, _seconds(runner, rows)) for rows in _row_counts(max(most_rows, 2))])


def _row_counts(most: int) -> Iterator[int]:
    rows = 1
    while rows <= min(most, _MOST_ROWS):
        yield rows
        rows *= 2


def _seconds(runner: Runner, rows: int) -> float:
    best = float("inf")
    for _ in range(_TIMES):
        started = time.perf_counter()
        _run(runner, BLOCK_SIZE, rows)
        best = min(best, time.perf_counter() - started)
    return best


def _run(runner: Runner, start: int, count: int) -> None:
    blocks = range(BlockManager.blocks_for(start + count))
    runner.run([Segment([0] * count, start, blocks, logits=count)])
