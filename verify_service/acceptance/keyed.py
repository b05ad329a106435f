"""Keyed acceptance: a guess stands exactly when it is the target's own choice."""

from __future__ import annotations

from collections.abc import Callable

from common import trees
from common.draft_types import Block
from verify_service.acceptance.target import TargetRows, Verdict


def accept_keyed(target: TargetRows, block: Block, seed: int) -> Verdict:
    """Gumbel coupling (Daliri et al. 2024): target and draft choose under the same noise.

    Of a tree the branch stands that holds the target's choices. The committed tokens are those choices
    whatever was drafted, so they depend on nothing but the target, the prompt, the parameters and ``seed``.
    With temperature 0 the choice is the argmax.
    """
    return follow(block, lambda row: target.choice(row, seed))


def follow(block: Block, chosen: Callable[[int], int]) -> Verdict:
    """The branch of a block that holds what is ``chosen`` row by row, as far as it goes."""
    following = trees.children(block.tree)
    nodes: list[int] = []
    row = 0
    while True:
        own = chosen(row)
        node = next((node for node in following[row] if block.token_ids[node] == own), None)
        if node is None:
            return Verdict(tuple(nodes), own)
        nodes.append(node)
        row = node + 1
