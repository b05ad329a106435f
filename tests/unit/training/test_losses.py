"""The losses and their gradients, against autograd over whole logits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from training.losses import DIVERGENCES, Taught, contrastive, distilled

ROWS, HIDDEN, WORDS, LIKELIEST = 300, 16, 40, 6


@pytest.fixture
def taught() -> Taught:
    generator = torch.Generator().manual_seed(0)
    p = torch.randn(ROWS, WORDS, generator=generator).mul(3).softmax(-1)
    probabilities, likeliest = p.topk(LIKELIEST)
    return Taught(likeliest, probabilities * 0.95, torch.rand(ROWS, generator=generator))


def reference(name: str, logits: Tensor, taught: Taught) -> Tensor:
    """By the definition, over the whole vocabulary."""
    log_q, p = logits.log_softmax(-1), taught.probabilities
    mass = p.sum(-1)
    cross = -(p * log_q.gather(-1, taught.likeliest)).sum(-1)
    if name == "soft_ce":
        return cross
    if name == "kl":
        return cross + (p * (p / mass.unsqueeze(-1)).log()).sum(-1)
    rest = ((1 - mass) / (WORDS - LIKELIEST)).unsqueeze(-1).expand(-1, WORDS)
    whole = rest.scatter(-1, taught.likeliest, p)
    return (log_q.exp() * (log_q - whole.log())).sum(-1)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_loss_and_gradient_are_those_of_autograd(name: str, taught: Taught) -> None:
    head = torch.randn(WORDS, HIDDEN, generator=torch.Generator().manual_seed(1))
    features = torch.randn(ROWS, HIDDEN, generator=torch.Generator().manual_seed(2))
    ours, theirs = (features.clone().requires_grad_() for _ in range(2))
    loss = distilled(ours, head, taught, DIVERGENCES[name])
    expected = reference(name, theirs @ head.T, taught) @ taught.weights
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-4)
    (2 * loss).backward()
    (2 * expected).backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-4)


def test_a_perfect_guess_has_no_divergence(taught: Taught) -> None:
    """Of a target that knows only its likeliest tokens."""
    p = taught.probabilities / taught.probabilities.sum(-1, keepdim=True)
    logits = torch.full((ROWS, WORDS), -50.0).scatter(-1, taught.likeliest, p.log())
    loss, gradient = DIVERGENCES["kl"](logits, taught.likeliest, p)
    assert float(loss.abs().max()) < 1e-5
    assert float(gradient.abs().max()) < 1e-5


def test_contrast_is_least_where_each_guess_is_its_own_target() -> None:
    targets = torch.randn(20, HIDDEN, generator=torch.Generator().manual_seed(3))
    assert contrastive(targets, targets) < contrastive(targets.roll(1, 0), targets)
