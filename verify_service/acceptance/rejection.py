"""Rejection acceptance: the output has the target's distribution, whatever the draft's was."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from common import noise, sampling, trees
from common.draft_types import Block, SparseDistribution
from verify_service.acceptance.keyed import accept_keyed
from verify_service.acceptance.target import TargetRows, Verdict

Residual = Callable[[Tensor, SparseDistribution], Tensor]


def accept_rejection(
    target: TargetRows, block: Block, seed: int, residual: Residual = sampling.residual
) -> Verdict:
    """Speculative sampling (Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2), and for trees
    multi-round speculative sampling (Miao et al. 2023, "SpecInfer", algorithm 3).

    A guess x drawn from q is taken with probability min(1, p(x) / q(x)). Where it is refused, p becomes
    norm(max(0, p - q)) and its next sibling is tried against that; after the last one the token is drawn from
    what p has become. After a guess without followers one more is drawn from p. A guess that came without a
    distribution counts as drawn from a one-hot q.

    Exact because each q is what the guess was drawn from *given its earlier siblings*: whatever they were,
    the tokens a round yields have the distribution p that the round began with, by induction from the last
    round to the first. It takes noise of its own for every guess.

    Args:
        residual: what p becomes; a test swaps it to show that the exactness tests notice.
    """
    if target.greedy:  # p is one-hot: a guess stands when it is the argmax, and else the argmax replaces it
        return accept_keyed(target, block, seed)
    following, draws = trees.children(block.tree), trees.draws(block.tree)
    nodes: list[int] = []
    row = 0
    while True:
        p, position = target.probabilities(row), target.position(row)
        for node in following[row]:
            guess, q = block.token_ids[node], block.distribution_of(node)
            if noise.accept_uniform(seed, position, draws[node]) * _probability(q, guess) < float(p[guess]):
                break
            p = residual(p, q)
        else:
            return Verdict(tuple(nodes), sampling.choose(p, seed, position))
        nodes.append(node)
        row = node + 1


def _probability(distribution: SparseDistribution, token_id: int) -> float:
    """As ``sampling.residual`` normalises it."""
    weight = distribution.probabilities[distribution.token_ids.index(token_id)]
    return weight / sum(distribution.probabilities)
