"""How a block fared, position by position."""

from __future__ import annotations

from collections.abc import Sequence

from common import trees
from common.draft_types import Block
from verify_service.drafts.control.base import Place


def places(block: Block, nodes: Sequence[int], *, short: bool, known: int) -> list[Place]:
    """The positions of ``block`` that were judged.

    Args:
        nodes: the guesses that stood, from the root down.
        short: the draft had nothing to add, so a position without guesses is one where it had none.
        known: tokens that are known to follow the block's base; nothing is said about later positions.
    """
    following = trees.children(block.tree)
    found: list[Place] = []
    row = 0
    for depth in range(min(known, len(nodes) + 1)):
        siblings = following[row]
        if not siblings and not short:
            break
        stood = nodes[depth] if depth < len(nodes) else None
        source = block.source_of(siblings[0]) if siblings else block.source
        rank = None if stood is None else siblings.index(stood)
        found.append(Place(depth, source, len(siblings), rank))
        row = 0 if stood is None else stood + 1
    return found


def followed(block: Block, token_ids: Sequence[int]) -> tuple[int, ...]:
    """The guesses along ``token_ids``, which follow the block's base, as far as there are any."""
    following = trees.children(block.tree)
    nodes: list[int] = []
    for token_id in token_ids:
        siblings = following[nodes[-1] + 1 if nodes else 0]
        node = next((node for node in siblings if block.token_ids[node] == token_id), None)
        if node is None:
            break
        nodes.append(node)
    return tuple(nodes)
