"""From probabilities to tokens: by the noise, in the right proportions, at both ends alike."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from common import sampling
from common.draft_types import SparseDistribution

LEAST_P = 1e-3
POSITIONS = 2500
TARGET = torch.tensor([0.4, 0.0, 0.3, 0.15, 0.1, 0.05], dtype=torch.float64)

weights = st.lists(st.floats(0, 1), min_size=2, max_size=100).filter(lambda values: sum(values) > 0.1)


def normalised(values: list[float]) -> torch.Tensor:
    row = torch.tensor(values, dtype=torch.float64)
    return row / row.sum()


def goodness(counts: Counter[int], expected: torch.Tensor) -> float:
    """The p-value of the counts under ``expected``; tokens of no probability must not occur."""
    possible = [token for token, probability in enumerate(expected.tolist()) if probability > 0]
    assert set(counts) <= set(possible)
    total = sum(counts.values())
    observed = [counts[token] for token in possible]
    return float(stats.chisquare(observed, [float(expected[t]) * total for t in possible]).pvalue)


@pytest.mark.parametrize("seed", [0, 7, -3])
def test_choices_over_positions_follow_the_distribution(seed: int) -> None:
    counts = Counter(sampling.choose(TARGET, seed, position) for position in range(POSITIONS))
    assert goodness(counts, TARGET) > LEAST_P


def test_choices_over_seeds_follow_the_distribution() -> None:
    counts = Counter(sampling.choose(TARGET, seed, 12) for seed in range(POSITIONS))
    assert goodness(counts, TARGET) > LEAST_P


def test_choices_do_not_need_normalised_weights() -> None:
    choices = [sampling.choose(TARGET, 1, position) for position in range(200)]
    assert choices == [sampling.choose(TARGET * 37, 1, position) for position in range(200)]


def test_sparse_choices_over_positions_follow_the_distribution() -> None:
    q = SparseDistribution((9, 2, 5), (0.5, 0.3, 0.2))
    counts = Counter(sampling.choose_sparse(q, 3, position) for position in range(POSITIONS))
    expected = torch.zeros(10, dtype=torch.float64)
    expected[list(q.token_ids)] = torch.tensor(q.probabilities, dtype=torch.float64)
    assert goodness(counts, expected) > LEAST_P


@given(weights, st.integers(0, 2**64 - 1), st.integers(0, 10_000))
def test_a_sparse_choice_is_the_dense_choice_of_the_same_distribution(
    values: list[float], seed: int, position: int
) -> None:
    q = sampling.draft_distribution(normalised(values))
    dense = torch.zeros(len(values), dtype=torch.float64)
    dense[list(q.token_ids)] = torch.tensor(q.probabilities, dtype=torch.float64)
    assert sampling.choose_sparse(q, seed, position) == sampling.choose(dense, seed, position)


def test_similar_distributions_choose_alike_under_the_same_noise() -> None:
    similar = normalised((TARGET + torch.tensor([0.03, 0, -0.03, 0, 0, 0])).tolist())
    same = sum(sampling.choose(TARGET, 5, p) == sampling.choose(similar, 5, p) for p in range(1000))
    # Gumbel coupling: at least (1 - d) / (1 + d) agree, d the total variation distance (Daliri et al. 2024).
    distance = 0.5 * float((TARGET - similar).abs().sum())
    assert same / 1000 > (1 - distance) / (1 + distance) - 0.03


def test_a_one_hot_distribution_is_chosen_whatever_the_noise() -> None:
    one_hot = torch.nn.functional.one_hot(torch.tensor(3), 6).to(torch.float64)
    assert {sampling.choose(one_hot, seed, 0) for seed in range(50)} == {3}


@given(weights)
def test_a_drafts_distribution_is_small_and_sums_to_one_in_float32(values: list[float]) -> None:
    q = sampling.draft_distribution(normalised(values))
    assert 0 < len(q.token_ids) == len(q.probabilities) <= sampling.MAX_SUPPORT
    assert len(set(q.token_ids)) == len(q.token_ids)
    assert sum(q.probabilities) == pytest.approx(1, abs=1e-5)
    assert all(probability > 0 for probability in q.probabilities)
    assert [float(np.float32(probability)) for probability in q.probabilities] == list(q.probabilities)


@given(weights, st.integers(1, 100))
def test_a_drafts_distribution_holds_its_likeliest_tokens_in_their_proportions(
    values: list[float], support: int
) -> None:
    probs = normalised(values)
    q = sampling.draft_distribution(probs, support)
    held = sum(float(probs[token_id]) for token_id in q.token_ids)
    for token_id, probability in zip(q.token_ids, q.probabilities, strict=True):
        assert probability == pytest.approx(float(probs[token_id]) / held, rel=1e-5)
    left_out = set(range(len(values))) - set(q.token_ids)
    if len(q.token_ids) == support and left_out:
        assert max(float(probs[t]) for t in left_out) <= min(float(probs[t]) for t in q.token_ids)


def test_a_drafts_distribution_has_no_token_without_probability() -> None:
    assert set(sampling.draft_distribution(TARGET).token_ids) == {0, 2, 3, 4, 5}


def test_a_drafts_distribution_leaves_out_what_float32_cannot_hold() -> None:
    q = sampling.draft_distribution(normalised([1.0, 1e-60]))
    assert q == SparseDistribution((0,), (1.0,))


@given(weights, st.data())
def test_the_residual_is_what_the_target_has_more_than_the_draft(
    values: list[float], data: st.DataObject
) -> None:
    target = normalised(values)
    ids = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=64, unique=True))
    drawn = data.draw(st.lists(st.floats(0.01, 1), min_size=len(ids), max_size=len(ids)))
    draft = SparseDistribution(tuple(ids), tuple(p / sum(drawn) for p in drawn))
    q = np.zeros(len(values))
    q[ids] = np.array(draft.probabilities) / sum(draft.probabilities)
    more = np.maximum(target.numpy() - q, 0)
    if more.sum() > 1e-9:
        np.testing.assert_allclose(sampling.residual(target, draft).numpy(), more / more.sum(), atol=1e-6)


def test_the_residual_of_a_one_hot_draft_is_the_target_without_that_token() -> None:
    left = sampling.residual(TARGET, SparseDistribution((0,), (1.0,)))
    expected = torch.tensor([0, 0, 0.3, 0.15, 0.1, 0.05], dtype=torch.float64) / 0.6
    torch.testing.assert_close(left, expected)


def test_the_residual_of_a_draft_equal_to_the_target_is_the_target() -> None:
    halves = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    draft = SparseDistribution((0, 1, 2), (0.5, 0.25, 0.25))
    assert torch.equal(sampling.residual(halves, draft), halves)


def test_the_residual_leaves_the_target_as_it_was() -> None:
    target = TARGET.clone()
    sampling.residual(target, SparseDistribution((0,), (1.0,)))
    assert torch.equal(target, TARGET)


@given(weights, weights)
def test_the_residual_is_a_distribution(left: list[float], right: list[float]) -> None:
    size = max(len(left), len(right))
    target = normalised(left + [0.0] * (size - len(left)))
    draft = sampling.draft_distribution(normalised(right))
    result = sampling.residual(target, draft)
    assert float(result.sum()) == pytest.approx(1)
    assert bool((result >= 0).all())


def test_accepting_and_replacing_together_give_the_target() -> None:
    """min(p, q) + (1 - sum of min(p, q)) * residual = p (Leviathan et al. 2023, appendix A.1)."""
    draft = SparseDistribution((0, 2, 4), (0.2, 0.5, 0.3))
    q = torch.zeros_like(TARGET)
    q[[0, 2, 4]] = torch.tensor(draft.probabilities, dtype=torch.float64)
    accepted = torch.minimum(TARGET, q)
    total = accepted + (1 - accepted.sum()) * sampling.residual(TARGET, draft)
    torch.testing.assert_close(total, TARGET)
