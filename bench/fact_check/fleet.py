"""Worker processes, which may be killed at any time."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Mapping
from types import TracebackType

_END_SECONDS = 10.0


class Fleet:
    """``with Fleet(...) as fleet``: so many workers of one group, ended with it."""

    def __init__(self, count: int, settings: Mapping[str, str | int], chance: random.Random) -> None:
        """
        Args:
            settings: of every worker, named as in its configuration.
        """
        given = {f"TANDEM_FACT_CHECK_{name.upper()}": str(value) for name, value in settings.items()}
        self._environment = {**os.environ, **given}
        self._count = count
        self._chance = chance
        self._workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Fleet:
        self._workers = [self._started() for _ in range(self._count)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            try:
                worker.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()

    def replace_one(self) -> None:
        """Kill one with SIGKILL, whatever it is at, and start another."""
        place = self._chance.randrange(self._count)
        self._workers[place].kill()
        self._workers[place].wait()
        self._workers[place] = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        command = (sys.executable, "-m", "fact_check_service")
        return subprocess.Popen(command, env=self._environment, stderr=subprocess.DEVNULL)
