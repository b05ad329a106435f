"""Samples of a tiny target, made up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from common.samples import LIKELIEST, Sample


def sample(
    number: int = 0,
    prompt_class: str = "chat",
    *,
    fingerprint: str = "f",
    greedy: bool = True,
    prompt: Sequence[int] | None = None,
    answer: Sequence[int] = (7, 8, 9),
) -> Sample:
    """By default one of a prompt of its own."""
    asked = [2 + number % 40, 2 + number // 40 % 40, 5] if prompt is None else list(prompt)
    ids = np.tile(np.arange(LIKELIEST, dtype=np.uint32), (len(answer), 1))
    ids[:, 0] = answer
    probabilities = np.full((len(answer), LIKELIEST), 0.05, np.float16)
    probabilities[:, 0] = 0.5
    return Sample(prompt_class, fingerprint, greedy, (*asked, *answer), len(asked), ids, probabilities)
