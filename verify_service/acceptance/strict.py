"""``strict``: a guess stands when it is the target's likeliest token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from common.draft_types import Block
from verify_service.acceptance.keyed import follow
from verify_service.acceptance.target import TargetRows, Verdict


@dataclass(frozen=True)
class Strict:
    """At temperature 0 that is what lossless verification does. Above it drafted text is drawn towards the
    likeliest tokens, and only the token after the last that stands is sampled."""

    name: ClassVar[str] = "strict"

    def accept(self, target: TargetRows, block: Block, seed: int) -> Verdict:
        return followed(target, follow(block, target.top).nodes, seed)


def followed(target: TargetRows, nodes: tuple[int, ...], seed: int) -> Verdict:
    """The guesses that stand, and after them what the target would say."""
    return Verdict(nodes, target.choice(nodes[-1] + 1 if nodes else 0, seed))
