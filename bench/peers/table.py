"""What a race gave: medians, spreads, and how many times each engine Tandem is."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bench.machine import Machine
from bench.passes import PassCosts
from bench.peers.race import Results

_NAME_WIDTH = 32
_CELL_WIDTH = 14


def text(results: Results, ours: Sequence[str], absent: Mapping[str, str]) -> str:
    """
    Args:
        ours: names of Tandem's rows; each has a column of ratios, above 1 where Tandem is the faster.
        absent: contestants that were not there, and why.
    """
    parts = [
        _table(f"tokens per second, {_streams(streams)}", speeds, ours, results.lengths)
        for streams, speeds in results.speeds.items()
    ]
    if results.prefills:
        milliseconds = {name: [1000 * each for each in times] for name, times in results.prefills.items()}
        parts.append(_table("prefill, milliseconds", milliseconds, ours, {}, smaller_is_better=True))
    parts += [line for streams, speeds in results.speeds.items() if (line := _best(streams, speeds, ours))]
    if absent:
        parts.append("\n".join(["absent", *(f"{name:{_NAME_WIDTH}}{why}" for name, why in absent.items())]))
    return "\n\n".join(parts)


def as_json(
    results: Results, absent: Mapping[str, str], machine: Machine, passes: Mapping[str, PassCosts]
) -> dict[str, Any]:
    return {
        "machine": asdict(machine),
        "tokens_per_second": results.speeds,
        "prefill_seconds": results.prefills,
        "mean_answer_tokens": results.lengths,
        "absent": dict(absent),
        "passes": {name: asdict(costs) for name, costs in passes.items()},
    }


def _table(
    title: str,
    samples: Mapping[str, Sequence[float]],
    ours: Sequence[str],
    lengths: Mapping[str, float],
    smaller_is_better: bool = False,
) -> str:
    medians = {name: statistics.median(each) for name, each in samples.items()}
    columns = [name for name in ours if name in medians]
    lines = [_row(title, "median", "spread", *(["tokens each"] if lengths else []), *columns)]
    for name, median in medians.items():
        ratios = [_ratio(medians[column], median, smaller_is_better) for column in columns]
        spread = f"{min(samples[name]):.1f}–{max(samples[name]):.1f}"
        length = [f"{lengths[name]:.0f}"] if lengths else []
        lines.append(_row(name, f"{median:.1f}", spread, *length, *ratios))
    return "\n".join(lines)


def _best(streams: int, speeds: Mapping[str, Sequence[float]], ours: Sequence[str]) -> str:
    """Each of our rows beside the fastest of the others; empty where there are no others."""
    medians = {name: statistics.median(each) for name, each in speeds.items()}
    others = medians.keys() - set(ours)
    if not others:
        return ""
    best = max(others, key=lambda name: medians[name])
    ratios = (f"{name} {_ratio(medians[name], medians[best], False)}" for name in ours if name in medians)
    return f"{_streams(streams)}, of {best}, the fastest other: {', '.join(ratios)}"


def _ratio(ours: float, theirs: float, smaller_is_better: bool) -> str:
    return f"{theirs / ours if smaller_is_better else ours / theirs:.2f} ×"


def _streams(count: int) -> str:
    return "one stream" if count == 1 else f"{count} streams"


def _row(first: str, *rest: str) -> str:
    return f"{first:{_NAME_WIDTH}}" + "".join(f"  {cell:>{_CELL_WIDTH}}" for cell in rest)
