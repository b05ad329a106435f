"""How long the parts of a verify step take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from verify_service import metrics


class Phases:
    """Of one step: ``seconds`` by phase, each observed in the metrics too."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[phase] = time.perf_counter() - started
        metrics.STEP_SECONDS.labels(phase).observe(self.seconds[phase])
