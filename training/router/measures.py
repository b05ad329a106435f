"""How good classifications are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from router.classifier import PROMPT_CLASSES
from training.router.fitting import Classes, Floats
from training.router.prompts import Prompt

_BINS = 10


def recalls(said: Classes, right: Classes) -> dict[str, float]:
    """The part of each class's prompts that was put into it, of the classes that there are."""
    return {PROMPT_CLASSES[each]: float(np.mean(said[right == each] == each)) for each in np.unique(right)}


def macro_accuracy(said: Classes, right: Classes) -> float:
    """The mean of the recalls; NaN without prompts."""
    return float(np.mean(list(recalls(said, right).values()))) if len(right) else float("nan")


def calibration_error(chances: Floats, right: Classes) -> float:
    """By how much the best class's chance is off from how often it is right, on average over ten bins.

    Naeini et al. 2015, Obtaining Well Calibrated Probabilities Using Bayesian Binning.
    """
    best = chances.max(1)
    hits = chances.argmax(1) == right
    bins = np.minimum((best * _BINS).astype(int), _BINS - 1)
    gaps = (abs(best[bins == each].sum() - hits[bins == each].sum()) for each in range(_BINS))
    return float(sum(gaps) / len(right))


def report(prompts: Sequence[Prompt], chances: Floats, right: Classes) -> str:
    """Lines of a card: macro accuracy of parts of the prompts, recall by class, calibration."""
    said = chances.argmax(1)
    lines = [
        f"{name}: {np.sum(part)} prompts, macro accuracy {macro_accuracy(said[part], right[part]):.3f}"
        for name, part in _parts(prompts).items()
    ]
    lines += [f"recall of {name}: {recall:.3f}" for name, recall in recalls(said, right).items()]
    second = np.argsort(-chances, 1)[:, :3]
    among = float(np.mean(np.any(second == right[:, None], 1)))
    return "\n".join(
        [
            *lines,
            f"the right class is among the best three: {among:.3f}",
            f"expected calibration error: {calibration_error(chances, right):.3f}",
        ]
    )


def _parts(prompts: Sequence[Prompt]) -> dict[str, NDArray[np.bool_]]:
    sources = np.array([prompt.source for prompt in prompts])
    chinese = np.array([prompt.language == "zh" for prompt in prompts])
    parts = {
        "all": np.ones(len(prompts), bool),
        "Spec-Bench dev": sources == "spec-bench",
        "hand-written instructions": sources == "instructions",
        "templates, English": (sources == "templates") & ~chinese,
        "templates, Chinese": chinese,
    }
    return {name: part for name, part in parts.items() if part.any()}
