"""``strict``: a guess stands when it is the target's likeliest token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from common import trees
from common.draft_types import Block
from verify_service.acceptance.target import TargetRows, Verdict


@dataclass(frozen=True)
class Strict:
    """At temperature 0 that is what lossless verification does. Above it drafted text is drawn towards the
    likeliest tokens, and only the token after the last that stands is sampled."""

    name: ClassVar[str] = "strict"

    def accept(self, target: TargetRows, block: Block, seed: int) -> Verdict:
        nodes = agreeing(target, block)
        return Verdict(nodes, target.choice(nodes[-1] + 1 if nodes else 0, seed))


def agreeing(target: TargetRows, block: Block) -> tuple[int, ...]:
    """The guesses from the root down that are the target's likeliest tokens."""
    following = trees.children(block.tree)
    nodes: list[int] = []
    row = 0
    while True:
        siblings = following[row]
        top = target.top(row) if siblings else -1
        kept = next((node for node in siblings if block.token_ids[node] == top), None)
        if kept is None:
            return tuple(nodes)
        nodes.append(kept)
        row = kept + 1
