"""``python -m bench.passes``: what a verify pass costs by the tokens in it, and where it goes."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch.profiler import ProfilerActivity, profile

from bench import runners
from common.model.batch import Runner, Segment
from common.model.block_manager import BlockManager

WIDTHS = (1, 2, 4, 8, 16)
CONTEXT = 100
REPEATS = 21
_WARM_UP = 3
_SHOWN_OPERATORS = 8


@dataclass(frozen=True)
class PassCosts:
    """
    Attributes:
        seconds: the median pass, by how many tokens it checks.
        shares: of a pass's wall time, by torch's operators, the longest first; the last one is what is spent
            outside of them, in Python or in a kernel of our own. Profiling itself lengthens what it measures.
        shares_width: how many tokens that pass checked.
    """

    seconds: Mapping[int, float]
    shares: Mapping[str, float]
    shares_width: int


def measure(runner: Runner, repeats: int = REPEATS) -> PassCosts:
    """Passes of every width in turn, on the same ``CONTEXT`` tokens of one sequence, logits for each row."""
    blocks = range(BlockManager.blocks_for(CONTEXT + max(WIDTHS)))
    runner.run([Segment(range(CONTEXT), 0, blocks, logits=1)])
    segments = {width: Segment(range(width), CONTEXT, blocks, logits=width) for width in WIDTHS}
    times: dict[int, list[float]] = {width: [] for width in WIDTHS}
    for _ in range(_WARM_UP + repeats):
        for width, segment in segments.items():
            times[width].append(_timed(runner, segment))
    medians = {width: statistics.median(each[_WARM_UP:]) for width, each in times.items()}
    return PassCosts(medians, _shares(runner, segments[8], repeats), shares_width=8)


def table(name: str, costs: PassCosts) -> str:
    one = costs.seconds[1]
    passes = (f"{width}: {1000 * each:.2f} ({each / one:.2f} ×)" for width, each in costs.seconds.items())
    shares = (f"{operator} {100 * share:.0f} %" for operator, share in costs.shares.items())
    return (
        f"{name}, milliseconds of a pass at {CONTEXT} tokens of context by the tokens it checks:\n"
        f"  {', '.join(passes)}\n"
        f"  where the pass of {costs.shares_width} goes: {', '.join(shares)}"
    )


def _timed(runner: Runner, segment: Segment) -> float:
    started = time.perf_counter()
    runner.run([segment])
    return time.perf_counter() - started


def _shares(runner: Runner, segment: Segment, repeats: int) -> dict[str, float]:
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        wall = sum(_timed(runner, segment) for _ in range(repeats))
    operators = {event.key: event.self_cpu_time_total / 1e6 for event in profiled.key_averages()}
    return shares(operators, wall)


def shares(operators: Mapping[str, float], wall: float) -> dict[str, float]:
    """The longest operators' parts of ``wall``, the others' together, and the time outside of all."""
    longest = sorted(operators.items(), key=lambda item: -item[1])
    named = {name: seconds / wall for name, seconds in longest[:_SHOWN_OPERATORS]}
    others = sum(seconds for _, seconds in longest[_SHOWN_OPERATORS:]) / wall
    return {**named, "other operators": others, "outside of torch": 1 - sum(named.values()) - others}


def measure_all(weights: Sequence[str], repeats: int = REPEATS) -> dict[str, PassCosts]:
    """Each format's pass costs, one runner in memory at a time."""
    num_blocks = BlockManager.blocks_for(CONTEXT + max(WIDTHS))
    return {name: measure(runners.make(name, num_blocks), repeats) for name in weights}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.passes", description=__doc__)
    parser.add_argument("--weights", nargs="+", choices=runners.WEIGHTS, default=["auto"])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    for name, costs in measure_all(options.weights, options.repeats).items():
        print(table(name, costs))


if __name__ == "__main__":
    main()
