"""What drafts wrote, beside what the answer says in its place."""

from __future__ import annotations

from collections.abc import Sequence as Seq

from common import trees
from common.draft_types import Block


def compared(guessed: Seq[Block], tokens: Seq[int]) -> tuple[list[int], list[int]]:
    """The first branches of all blocks, and the tokens at their positions; what the answer never came to is
    left out of both."""
    wrote: list[int] = []
    said: list[int] = []
    for block in guessed:
        there = tokens[block.base_length : block.base_length + len(block.token_ids)]
        branch = _first_branch(block)[: len(there)]
        wrote += branch
        said += there[: len(branch)]
    return wrote, said


def _first_branch(block: Block) -> list[int]:
    following = trees.children(block.tree)
    branch: list[int] = []
    row = 0
    while following[row]:
        node = following[row][0]
        branch.append(block.token_ids[node])
        row = node + 1
    return branch
