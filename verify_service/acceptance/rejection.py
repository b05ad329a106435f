"""Rejection acceptance: the output has the target's distribution, whatever the draft's was."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from common import noise, sampling
from common.types import Block, SparseDistribution
from verify_service.acceptance.keyed import accept_keyed
from verify_service.acceptance.target import TargetRows, Verdict

Residual = Callable[[Tensor, SparseDistribution], Tensor]


def accept_rejection(
    target: TargetRows, block: Block, seed: int, residual: Residual = sampling.residual
) -> Verdict:
    """Speculative sampling: Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2.

    A guess x drawn from q is taken with probability min(1, p(x) / q(x)). At the first refusal the token is
    drawn from norm(max(0, p - q)); after a block taken whole one more is drawn from p. A guess that came
    without a distribution counts as drawn from a one-hot q.

    Args:
        residual: what replaces a refused guess; a test swaps it to show that the exactness tests notice.
    """
    if target.greedy:  # p is one-hot: a guess stands when it is the argmax, and else the argmax replaces it
        return accept_keyed(target, block, seed)
    for row, guess in enumerate(block.token_ids):
        p = target.probabilities(row)
        q = block.distributions[row] if block.distributions else SparseDistribution((guess,), (1.0,))
        position = target.position + row
        if noise.accept_uniform(seed, position) * _probability(q, guess) >= float(p[guess]):
            return Verdict(row, sampling.choose(residual(p, q), seed, position))
    accepted = len(block.token_ids)
    return Verdict(accepted, target.choice(accepted, seed))


def _probability(distribution: SparseDistribution, token_id: int) -> float:
    """As ``sampling.residual`` normalises it."""
    weight = distribution.probabilities[distribution.token_ids.index(token_id)]
    return weight / sum(distribution.probabilities)
