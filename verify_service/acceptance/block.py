"""``block``: guesses stand together or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Interval

from common.draft_types import Block
from verify_service.acceptance.keyed import follow
from verify_service.acceptance.strict import followed
from verify_service.acceptance.target import TargetRows, Verdict


@dataclass(frozen=True)
class Run:
    """The longest run of guesses that are the target's likeliest tokens, if there are ``least`` of them."""

    name: ClassVar[str] = "block"
    least: Annotated[int, Interval(ge=1, le=64)] = 3

    def accept(self, target: TargetRows, block: Block, seed: int) -> Verdict:
        nodes = follow(block, target.top).nodes
        return followed(target, nodes if len(nodes) >= self.least else (), seed)
