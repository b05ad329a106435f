from typing import Any

import pytest

from tests.statistical.reference import PROMPT, Target
from tests.support.models import tiny_model
from tests.support.unhurried import one_thread

__all__ = ["one_thread"]


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_model(seed=3)


@pytest.fixture(scope="module")
def target(model: Any) -> Target:
    return Target(model, PROMPT)
