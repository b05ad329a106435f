"""Validators as an installed package offers them, of every character."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from verify_service.validators import registry
from verify_service.validators.base import WrongOption, only

ROOT = Path(__file__).resolve().parents[2]


class Every:
    """Lets everything pass."""

    def __init__(self, options: Mapping[str, str]) -> None:
        only(options)

    def longest(self, text: str, start: int, ends: Sequence[int]) -> int:
        return len(ends)


class Revealing(Every):
    """Cuts every token whose text ends in an odd character."""

    def longest(self, text: str, start: int, ends: Sequence[int]) -> int:
        odd = (place for place, end in enumerate(ends) if ord(text[end - 1]) % 2)
        return next(odd, len(ends))


class Shouting(Every):
    """Cuts what has a certain character in it, and prints what it sees."""

    def __init__(self, options: Mapping[str, str]) -> None:
        only(options, "not")
        if len(options.get("not", "")) != 1:
            raise WrongOption("not", "must be one character")
        self._not = options["not"]

    def longest(self, text: str, start: int, ends: Sequence[int]) -> int:
        print(text, flush=True)
        return next((place for place, end in enumerate(ends) if self._not in text[start:end]), len(ends))


class Failing(Every):
    def longest(self, text: str, start: int, ends: Sequence[int]) -> int:
        raise RuntimeError("as asked")


class Sleeping(Every):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._seconds = float(options["seconds"])

    def longest(self, text: str, start: int, ends: Sequence[int]) -> int:
        time.sleep(self._seconds)
        return 0


class Stuck(Every):
    """Never returns, and never lets another thread of its process run."""

    def longest(self, text: str, start: int, ends: Sequence[int]) -> int:
        re.fullmatch("(a+)+b", "a" * 60)
        return 0


class Dying(Every):
    def longest(self, text: str, start: int, ends: Sequence[int]) -> int:
        os._exit(1)


class Unmakeable(Every):
    def __init__(self, options: Mapping[str, str]) -> None:
        raise RuntimeError("as asked")


OFFERED = (Every, Revealing, Shouting, Failing, Sleeping, Stuck, Dying, Unmakeable)


@contextmanager
def offered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """While it lasts, a package with all of them is installed, here and for processes that are started."""
    info = folder / "offered-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1.0\n")
    entries = "".join(f"{made.__name__.lower()} = {__name__}:{made.__name__}\n" for made in OFFERED)
    (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{entries}")
    with monkeypatch.context() as patched:
        patched.syspath_prepend(str(folder))
        patched.setenv("PYTHONPATH", f"{folder}{os.pathsep}{ROOT}")
        registry.known.cache_clear()
        yield
    registry.known.cache_clear()
