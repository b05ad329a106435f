"""A picture of what was measured in a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")  # before pyplot, so that no window is asked for
from matplotlib import pyplot


def draw(history: Sequence[Mapping[str, float]], path: Path) -> None:
    """Held-out acceptance by step, of all guesses and of each; ``path`` ends with the kind of file."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    steps = [measured["step"] for measured in history]
    left.plot(steps, [measured["tokens_per_step"] for measured in history], marker="o")
    left.set(xlabel="batches", ylabel="tokens per step, held out", ylim=(1, None))
    depths = [name for name in history[-1] if name.startswith("reached_")] if history else []
    for name in depths:
        label = f"guess {name.removeprefix('reached_')}"
        right.plot(steps, [measured[name] for measured in history], label=label)
    right.set(xlabel="batches", ylabel="chains that reach it", ylim=(0, 1))
    if depths:
        right.legend()
    figure.savefig(path)
    pyplot.close(figure)
