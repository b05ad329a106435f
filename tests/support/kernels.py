"""Kernels of a chosen instruction set, cache or compiler, for as long as a test lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from common.model.fused import library


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """The kernel is looked for anew, under these environment variables."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        library.load.cache_clear()
        yield
    library.load.cache_clear()
