"""The noise that draft and target share: fixed for ever, uniform, and independent in all its arguments."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from common import noise, trees
from tests.unit.common import noise_reference

SAMPLES = 20_000
LEAST_P = 1e-3
# Five standard deviations of the correlation of independent samples; the seeds are fixed, so none is flaky.
LARGEST_CORRELATION = 5 / math.sqrt(SAMPLES)

seeds = st.integers(-(2**63), 2**64 - 1)
positions = st.integers(0, 2**32 - 1)
token_ids = st.integers(0, 2**32 - 1)
draws = st.integers(0, 2**64 - 1)
# Of a first, second and third child, and of first and second children of the second.
DRAWS = (0, 1, 2, trees.draw(1, 0), trees.draw(1, 1))


def uniforms(seed: int, position: int, count: int = SAMPLES, draw: int = 0) -> np.ndarray:
    """Of the first ``count`` tokens."""
    values: np.ndarray = noise.exponentials(seed, position, torch.arange(count), draw).neg().exp().numpy()
    return values


def correlation(left: np.ndarray, right: np.ndarray) -> float:
    return abs(float(np.corrcoef(left, right)[0, 1]))


@pytest.mark.parametrize(
    ("seed", "position", "expected"),
    [
        (0, 0, (1.084554205612298, 1.312559736953799, 0.49304411264609155)),
        (1, 0, (0.8376068063284914, 0.8541797375424363, 0.22378673484997014)),
        (0, 1, (1.975374108645118, 0.029323684598536848, 1.5172051247949172)),
        (42, 7, (0.8151841294260531, 0.0585516561560499, 0.2247608561021126)),
        (-1, 100, (3.9695594353214387, 0.7662596613380932, 2.6283875558265897)),
        (2**63, 2**31, (0.7185670999633711, 0.6861888880755176, 1.20459891242796)),
    ],
)
def test_the_noise_of_a_token_never_changes(seed: int, position: int, expected: tuple[float, ...]) -> None:
    values = noise.exponentials(seed, position, torch.tensor([0, 1, 49151])).tolist()
    assert values == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("seed", "position", "expected"),
    [
        (0, 0, 0.5297145054178648),
        (1, 0, 0.26933159566026343),
        (42, 7, 0.43715003166860644),
        (-1, 100, 0.9795860074971551),
        (2**63, 2**31, 0.7772014394378507),
    ],
)
def test_the_noise_of_an_acceptance_never_changes(seed: int, position: int, expected: float) -> None:
    assert noise.accept_uniform(seed, position) == expected


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (0, 2727312559458743203),
        (1, 11906131984972338280),
        (-1, 186527873498846973),
        (2**63, 4170393917590298017),
    ],
)
def test_a_drafts_seed_never_changes(seed: int, expected: int) -> None:
    assert noise.draft_seed(seed) == expected


@given(seeds, positions, st.lists(token_ids, min_size=1, max_size=20), draws)
def test_the_tensor_noise_is_the_scalar_noise(seed: int, position: int, ids: list[int], draw: int) -> None:
    expected = [noise_reference.exponential(seed, position, token_id, draw) for token_id in ids]
    assert noise.exponentials(seed, position, torch.tensor(ids), draw).tolist() == pytest.approx(
        expected, rel=1e-14
    )


@given(seeds, positions, draws)
def test_the_acceptance_noise_is_the_scalar_noise(seed: int, position: int, draw: int) -> None:
    expected = noise_reference.accept_uniform(seed, position, draw)
    assert noise.accept_uniform(seed, position, draw) == expected


@given(seeds, positions)
def test_acceptance_noise_lies_strictly_between_zero_and_one(seed: int, position: int) -> None:
    assert 0 < noise.accept_uniform(seed, position) < 1


@given(seeds, positions, st.lists(token_ids, min_size=1, max_size=20))
def test_exponential_noise_is_positive_and_finite(seed: int, position: int, ids: list[int]) -> None:
    values = noise.exponentials(seed, position, torch.tensor(ids))
    assert bool(((values > 0) & values.isfinite()).all())


def test_a_tokens_noise_does_not_depend_on_which_tokens_are_asked_for_with_it() -> None:
    together = noise.exponentials(5, 6, torch.arange(1000))
    picked = torch.tensor([[999, 3], [17, 500]])
    torch.testing.assert_close(noise.exponentials(5, 6, picked), together[picked], rtol=1e-15, atol=0)


def test_asking_for_noise_leaves_the_token_ids_as_they_were() -> None:
    ids = torch.arange(4)
    noise.exponentials(1, 2, ids)
    assert ids.tolist() == [0, 1, 2, 3]


@given(seeds)
def test_a_seed_and_its_unsigned_form_give_the_same_noise(seed: int) -> None:
    ids = torch.arange(4)
    unsigned = seed & (2**64 - 1)
    assert torch.equal(noise.exponentials(seed, 3, ids), noise.exponentials(unsigned, 3, ids))
    assert noise.accept_uniform(seed, 3) == noise.accept_uniform(unsigned, 3)
    assert noise.draft_seed(seed) == noise.draft_seed(unsigned)


@given(seeds)
def test_a_drafts_seed_has_64_bits_and_is_not_the_targets(seed: int) -> None:
    derived = noise.draft_seed(seed)
    assert 0 <= derived < 2**64
    assert derived != seed & (2**64 - 1)


@pytest.mark.parametrize(("seed", "position"), [(0, 0), (1, 0), (-1, 77), (2**64 - 1, 2**20)])
def test_noise_over_tokens_is_uniform(seed: int, position: int) -> None:
    assert stats.kstest(uniforms(seed, position), "uniform").pvalue > LEAST_P


@pytest.mark.parametrize("token_id", [0, 1, 49151])
def test_noise_of_one_token_over_positions_is_uniform(token_id: int) -> None:
    ids = torch.tensor([token_id])
    values = [float(noise.exponentials(9, position, ids)) for position in range(5000)]
    assert stats.kstest(values, "expon").pvalue > LEAST_P


def test_noise_of_one_token_over_seeds_is_uniform() -> None:
    ids = torch.tensor([3])
    values = [float(noise.exponentials(seed, 5, ids)) for seed in range(5000)]
    assert stats.kstest(values, "expon").pvalue > LEAST_P


def test_acceptance_noise_over_positions_is_uniform() -> None:
    values = [noise.accept_uniform(11, position) for position in range(SAMPLES)]
    assert stats.kstest(values, "uniform").pvalue > LEAST_P


def test_acceptance_noise_over_seeds_is_uniform() -> None:
    values = [noise.accept_uniform(seed, 4) for seed in range(SAMPLES)]
    assert stats.kstest(values, "uniform").pvalue > LEAST_P


@pytest.mark.parametrize("pair", list(itertools.combinations([0, 1, 2, -1, 2**32], 2)))
def test_neighbouring_seeds_are_uncorrelated(pair: tuple[int, int]) -> None:
    assert correlation(uniforms(pair[0], 8), uniforms(pair[1], 8)) < LARGEST_CORRELATION


@pytest.mark.parametrize("pair", list(itertools.combinations([0, 1, 2, 3, 2**16], 2)))
def test_neighbouring_positions_are_uncorrelated(pair: tuple[int, int]) -> None:
    assert correlation(uniforms(8, pair[0]), uniforms(8, pair[1])) < LARGEST_CORRELATION


@pytest.mark.parametrize("pair", list(itertools.combinations(DRAWS, 2)))
def test_the_draws_of_one_position_are_uncorrelated(pair: tuple[int, int]) -> None:
    first, second = (uniforms(8, 3, draw=draw) for draw in pair)
    assert correlation(first, second) < LARGEST_CORRELATION
    assert correlation(first, uniforms(8, 4, draw=pair[1])) < LARGEST_CORRELATION


@pytest.mark.parametrize("pair", list(itertools.combinations(DRAWS, 2)))
def test_the_acceptances_of_one_position_are_uncorrelated(pair: tuple[int, int]) -> None:
    first, second = (
        np.array([noise.accept_uniform(5, position, draw) for position in range(5000)]) for draw in pair
    )
    assert correlation(first, second) < 5 / math.sqrt(5000)


@pytest.mark.parametrize("distance", [1, 2, 16, 64])
def test_neighbouring_tokens_are_uncorrelated(distance: int) -> None:
    values = uniforms(8, 3, SAMPLES + distance)
    assert correlation(values[distance:], values[:-distance]) < LARGEST_CORRELATION


@pytest.mark.parametrize("shift", [1, 2])
def test_a_seeds_position_is_not_its_neighbours_next_position(shift: int) -> None:
    assert correlation(uniforms(8, 3), uniforms(8 + shift, 3 - shift)) < LARGEST_CORRELATION


def test_acceptance_is_independent_of_the_choice_at_the_same_position() -> None:
    ids = torch.tensor([0])
    accepted = [noise.accept_uniform(6, position) for position in range(5000)]
    chosen = [float(noise.exponentials(6, position, ids)) for position in range(5000)]
    assert correlation(np.array(accepted), np.array(chosen)) < 5 / math.sqrt(5000)


def test_a_drafts_noise_is_independent_of_the_targets() -> None:
    assert correlation(uniforms(8, 3), uniforms(noise.draft_seed(8), 3)) < LARGEST_CORRELATION
