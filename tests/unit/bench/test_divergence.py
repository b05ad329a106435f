"""How far one model's predictions are from another's."""

from __future__ import annotations

import math

import pytest
import torch

from bench.divergence import Divergence

P = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]])
Q = torch.tensor([[0.25, 0.5, 0.25], [0.1, 0.8, 0.1]])
TOKENS = torch.tensor([0, 1])


def divergence(p: torch.Tensor, q: torch.Tensor, shift: float = 0.0) -> Divergence:
    """Logits are log-probabilities up to a constant."""
    found = Divergence()
    found.add(p.log() + shift, q.log() - shift, TOKENS)
    return found


def test_a_model_does_not_diverge_from_itself() -> None:
    found = divergence(P, P)
    assert (found.perplexity_ratio, found.agreement, found.mean_kl) == (1.0, 1.0, 0.0)


def test_perplexity_agreement_and_divergence_are_those_of_the_definitions() -> None:
    found = divergence(P, Q, shift=3.0)
    assert found.perplexity == pytest.approx((0.25 * 0.8) ** -0.5)
    assert found.perplexity_ratio == pytest.approx(2**0.5)
    assert found.agreement == 0.5
    assert found.mean_kl == pytest.approx((0.5 * math.log(2) + 0.25 * math.log(0.5)) / 2)


def test_the_divergence_is_that_of_the_other_from_the_reference() -> None:
    one, two = torch.tensor([[0.9, 0.05, 0.05]] * 2), torch.tensor([[0.4, 0.3, 0.3]] * 2)
    expected = sum(p * math.log(p / q) for p, q in ((0.9, 0.4), (0.05, 0.3), (0.05, 0.3)))
    assert divergence(one, two).mean_kl == pytest.approx(expected)


def test_parts_add_up_to_the_whole() -> None:
    whole, parts = divergence(P, Q), Divergence()
    for row in range(2):
        parts.add(P[row : row + 1].log(), Q[row : row + 1].log(), TOKENS[row : row + 1])
    assert parts.positions == 2
    assert parts.mean_kl == pytest.approx(whole.mean_kl)
    assert parts.perplexity_ratio == pytest.approx(whole.perplexity_ratio)
