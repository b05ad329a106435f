"""Answers drafted by looking ahead have exactly the target's distribution."""

from __future__ import annotations

import pytest

from common.types import Mode
from tests.statistical.markov import p_value, walked
from tests.support.always_looking import always_looking


@pytest.mark.parametrize("width", [1, 3])
async def test_each_token_of_a_long_answer_has_the_targets_distribution(width: int) -> None:
    counts, accepted = await walked(Mode.REJECTION, width, lookahead=always_looking(4, 3))
    p = p_value(counts)
    assert p > 0.001, f"p = {p:.2g} with {accepted:.2f} guesses accepted a pass"
    assert accepted > 0.3, "hardly a guess is accepted; that tests nothing"
