"""Temperature, top-k, top-p and min-p, alone and together, against a slow reference."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from common import sampling
from common.types import SamplingParams
from tests.unit.common import sampling_reference as reference

rows = st.lists(st.floats(-15, 15, width=32), min_size=2, max_size=12)
temperatures = st.floats(0.1, 2)
top_ks = st.integers(1, 13)
top_ps = st.floats(0.01, 1)
min_ps = st.floats(0, 1)


def probabilities(row: list[float], params: SamplingParams) -> list[float]:
    result: list[float] = sampling.probabilities(torch.tensor([row], dtype=torch.float64), params)[0].tolist()
    return result


def check(row: list[float], params: SamplingParams) -> None:
    """Against the reference, unless rounding decides which side of a threshold a token falls on."""
    expected = reference.probabilities(row, params)
    for nudge in (1 - 1e-9, 1 + 1e-9):
        moved = SamplingParams(
            temperature=params.temperature,
            top_k=params.top_k,
            top_p=min(1.0, params.top_p * nudge),
            min_p=min(1.0, params.min_p * nudge),
        )
        assume(reference.probabilities(row, moved) == pytest.approx(expected, abs=1e-6))
    assert probabilities(row, params) == pytest.approx(expected, abs=1e-9)


@given(rows, temperatures)
def test_temperature_alone(row: list[float], temperature: float) -> None:
    check(row, SamplingParams(temperature=temperature))


@given(rows, top_ks)
def test_top_k_alone(row: list[float], top_k: int) -> None:
    check(row, SamplingParams(top_k=top_k))


@given(rows, top_ps)
def test_top_p_alone(row: list[float], top_p: float) -> None:
    check(row, SamplingParams(top_p=top_p))


@given(rows, min_ps)
def test_min_p_alone(row: list[float], min_p: float) -> None:
    check(row, SamplingParams(min_p=min_p))


@given(rows, temperatures, st.integers(0, 13), top_ps, min_ps)
def test_all_together_in_their_order(
    row: list[float], temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    check(row, SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p))


@given(rows, st.just(0) | st.floats(1e-3, 2), st.integers(0, 13), st.floats(0, 1, exclude_min=True), min_ps)
def test_every_row_sums_to_one_and_keeps_its_likeliest_token(
    row: list[float], temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    result = probabilities(row, params)
    assert sum(result) == pytest.approx(1)
    assert all(probability >= 0 for probability in result)
    assert result[row.index(max(row))] > 0


@given(st.lists(rows.filter(lambda row: len(row) >= 4).map(lambda row: row[:4]), min_size=1, max_size=4))
def test_a_row_does_not_depend_on_its_neighbours(block: list[list[float]]) -> None:
    params = SamplingParams(temperature=0.7, top_k=3, top_p=0.8, min_p=0.05)
    together = sampling.probabilities(torch.tensor(block, dtype=torch.float64), params).tolist()
    assert together == [probabilities(row, params) for row in block]


@given(rows)
def test_greedy_is_one_hot_at_the_largest_logit(row: list[float]) -> None:
    result = probabilities(row, SamplingParams(temperature=0))
    assert sorted(result) == [0.0] * (len(row) - 1) + [1.0]
    assert row[result.index(1.0)] == max(row)


def test_greedy_ignores_every_filter() -> None:
    params = SamplingParams(temperature=0, top_k=2, top_p=0.1, min_p=0.5)
    assert probabilities([1, 3, 2], params) == [0, 1, 0]


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-308, 5e-324])
def test_a_tiny_temperature_is_as_good_as_greedy(temperature: float) -> None:
    assert probabilities([2, 9, 5], SamplingParams(temperature=temperature)) == [0, 1, 0]


@pytest.mark.parametrize("temperature", [1e-308, 5e-324])
def test_a_tiny_temperature_shares_between_equals(temperature: float) -> None:
    assert probabilities([9, 9, 5], SamplingParams(temperature=temperature)) == [0.5, 0.5, 0]


@pytest.mark.parametrize("top_p", [1e-9, 5e-324])
def test_a_tiny_top_p_keeps_the_likeliest_token(top_p: float) -> None:
    assert probabilities([1, 3, 2], SamplingParams(top_p=top_p)) == [0, 1, 0]


def test_a_top_p_that_the_likeliest_tokens_just_hold_keeps_no_more() -> None:
    row = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64).log().tolist()
    assert probabilities(row, SamplingParams()) == [0.5, 0.25, 0.25]
    assert probabilities(row, SamplingParams(top_p=0.5)) == [1, 0, 0]


def test_tokens_tied_at_the_top_k_threshold_all_stay() -> None:
    assert probabilities([1, 1, 1, -50], SamplingParams(top_k=2)) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])


def test_tokens_tied_at_the_top_p_threshold_all_stay() -> None:
    assert probabilities([1, 1, 1, 1], SamplingParams(top_p=0.3)) == [0.25] * 4


def test_tokens_tied_with_the_likeliest_stay_at_min_p_one() -> None:
    assert probabilities([2, 2, 1], SamplingParams(min_p=1)) == [0.5, 0.5, 0]


def test_a_top_k_of_the_whole_vocabulary_or_more_filters_nothing() -> None:
    plain = probabilities([1, 2, 3], SamplingParams())
    assert probabilities([1, 2, 3], SamplingParams(top_k=3)) == plain
    assert probabilities([1, 2, 3], SamplingParams(top_k=2**32 - 1)) == plain


def test_top_p_judges_what_top_k_left() -> None:
    # Of [.4, .3, .2, .1], top-k 2 leaves [4/7, 3/7]; of those, 0.5 needs one token, of the whole two.
    row = torch.tensor([0.4, 0.3, 0.2, 0.1]).log().tolist()
    assert probabilities(row, SamplingParams(top_k=2, top_p=0.5)) == [1, 0, 0, 0]
    assert probabilities(row, SamplingParams(top_p=0.5))[1] > 0


def test_a_forbidden_token_has_no_probability() -> None:
    result = probabilities([1, -float("inf"), 2], SamplingParams(temperature=1.5, min_p=0.0))
    assert result[1] == 0
    assert sum(result) == pytest.approx(1)
