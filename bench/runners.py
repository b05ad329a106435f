"""The embedded model's runners, by the name of their weights."""

from __future__ import annotations

import os
from typing import get_args

from common.model import loading, store
from common.model.batch import Runner
from common.model.names import BackendName, WeightsName

REFERENCE = "float32"
WEIGHTS: tuple[str, ...] = get_args(WeightsName)
BACKENDS: tuple[str, ...] = get_args(BackendName)


def make(weights: str, num_blocks: int, backend: str = "auto") -> Runner:
    """As the verify service makes it on a CPU, on every core.

    Args:
        num_blocks: of the runner's own KV pool.
    """
    threads = os.cpu_count() or 1
    wanted = loading.Wanted(store.EMBEDDED, num_blocks, threads, weights, backend, device="cpu")
    return loading.load(wanted).runner


def reference(num_blocks: int) -> Runner:
    """Plain float32 through transformers' own modules."""
    return make(REFERENCE, num_blocks, "general")
