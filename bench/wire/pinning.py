"""Verify and draft on cores of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tandem.local import LocalStack

ONE_THREAD = {"TANDEM_VERIFY_THREADS": "1", "TANDEM_DRAFT_THREADS": "1"}


def separate(stack: LocalStack) -> None:
    """Verify on the first core that this process may use, every draft on the second; the rest anywhere.

    Raises:
        OSError: when there is only one.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise OSError("verify and draft cannot have cores of their own where there is one")
    places = {"verify": cores[0]} | {f"draft-{name}": cores[1] for name in stack.stack.drafts}
    _pin({stack.pid(name): core for name, core in places.items()})


def _pin(cores: Mapping[int, int]) -> None:
    """With every thread that they have; those to come inherit it."""
    for pid, core in cores.items():
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {core})
