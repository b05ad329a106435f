"""A picture of tokens per verify step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")  # before pyplot, so that no window is asked for
from matplotlib import pyplot

from bench.setups import NONE

INK = "#7d8590"  # legible on white and on nearly black
COLOURS = ("#3d84d6", "#d9822b", "#2f9e77", "#c2568f", "#8f6bd1", "#a08a2c", "#4ba3b5", "#c4554d")
_WIDTH = 0.8  # of a group's bars together; the rest is the gap to the next
STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "svg.fonttype": "none",
    "svg.hashsalt": "tandem",  # the same numbers make the same file
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def draw(found: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """A cluster of bars for each group, a colour for each label; a bar begins at the 1 of no drafts, which
    has none."""
    found = {label: means for label, means in found.items() if label != NONE}
    with mpl.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=(9, 4), layout="constrained")
        groups = list(dict.fromkeys(group for means in found.values() for group in means))
        width = _WIDTH / max(len(found), 1)
        for index, (label, means) in enumerate(found.items()):
            places = [place - _WIDTH / 2 + (index + 0.5) * width for place in range(len(groups))]
            gains = [means.get(group, 1.0) - 1 for group in groups]
            colour = COLOURS[index % len(COLOURS)]
            axes.bar(places, gains, 0.92 * width, bottom=1, label=label, color=colour)
        axes.set_xticks(range(len(groups)), [group.replace("_", " ") for group in groups])
        axes.set(ylabel="tokens per verify step", ylim=(1, None))
        axes.tick_params(axis="x", length=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color=INK, alpha=0.25, linewidth=0.6)
        axes.set_axisbelow(True)
        figure.legend(loc="outside upper center", ncols=min(len(found), 4), frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, transparent=True, metadata={"Date": None} if path.suffix == ".svg" else None)
        pyplot.close(figure)
