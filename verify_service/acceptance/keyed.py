"""Keyed acceptance: a guess stands exactly when it is the target's own choice."""

from __future__ import annotations

from common.types import Block
from verify_service.acceptance.target import TargetRows, Verdict


def accept_keyed(target: TargetRows, block: Block, seed: int) -> Verdict:
    """Gumbel coupling (Daliri et al. 2024): target and draft choose under the same noise.

    The committed tokens are the target's choices whatever was drafted, so they depend on nothing but the
    target, the prompt, the parameters and ``seed``. With temperature 0 the choice is the argmax.
    """
    for row, guess in enumerate(block.token_ids):
        own = target.choice(row, seed)
        if own != guess:
            return Verdict(row, own)
    accepted = len(block.token_ids)
    return Verdict(accepted, target.choice(accepted, seed))
