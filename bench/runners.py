"""The embedded model's runners, by the name of their weights."""

from __future__ import annotations

import torch

from common.model import store
from common.model.batch import Runner
from common.model.runner import ModelRunner

REFERENCE = "float32"
WEIGHTS = (REFERENCE, "bfloat16")


def make(weights: str, num_blocks: int) -> Runner:
    """
    Args:
        weights: one of ``WEIGHTS``.
        num_blocks: of the runner's own KV pool.
    """
    folder = store.resolve(store.EMBEDDED)
    return ModelRunner(store.load_model(folder, getattr(torch, weights), "cpu"), num_blocks)
