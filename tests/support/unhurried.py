"""What tests of tiny models share: one thread, and no deadline per example."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

# A machine may be busy with other things; how long an example took says nothing about what is tested.
settings.register_profile("unhurried", settings(), deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """A tiny model has too little work to share, and several threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
