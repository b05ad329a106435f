"""A picture of speed against deviation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")  # before pyplot, so that no window is asked for
from matplotlib import pyplot

from bench.acceptance.plot import COLOURS, INK, STYLE
from bench.policies.table import Figures


def draw(found: Mapping[str, Figures], path: Path) -> None:
    """A point for each policy, the share of strayed tokens across, tokens per step up."""
    ordered = sorted(found.items(), key=lambda pair: (pair[1].strayed, pair[1].per_step))
    with mpl.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
        for index, (label, one) in enumerate(ordered):
            place = (100 * one.strayed, one.per_step)
            axes.scatter(*place, s=48, color=COLOURS[index % len(COLOURS)], zorder=2)
            axes.annotate(label, place, xytext=(7, -16 + 11 * (index % 4)), textcoords="offset points")
        axes.set(xlabel="tokens that the target would not have chosen, %", ylabel="tokens per verify step")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=INK, alpha=0.25, linewidth=0.6)
        axes.margins(x=0.12, y=0.15)
        figure.savefig(path, transparent=True)
        pyplot.close(figure)
