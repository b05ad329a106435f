"""``consensus``: several drafts of one span decide together, and the target where they are apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Interval

from common import trees
from common.draft_types import Block
from verify_service.acceptance.lossy import COMMON_TEMPERATURE, Place, accept_where
from verify_service.acceptance.target import TargetRows, Verdict


@dataclass(frozen=True)
class Consensus:
    """Of a pool's sources some guess the same span; a block says how far apart the closest two are at each
    position (``Block.disagreements``, normalised KL).

    - Below ``agreement`` the first of their guesses stands.
    - Above ``divergence``, where all are apart, the target is asked with the drafts laid out side by side:
      they are branches of the tree that it has just read. The branch that it finds likeliest, per token, may
      go on, if it is as likely as what the target would have said there.
    - In between, and where one source spoke alone, the target decides.
    """

    name: ClassVar[str] = "consensus"
    agreement: Annotated[float, Interval(gt=0, le=1)] = 0.1
    divergence: Annotated[float, Interval(gt=0, le=1)] = 0.15

    def accept(self, target: TargetRows, block: Block, seed: int) -> Verdict:
        return accept_where(target, block, seed, self._stands)

    def _stands(self, place: Place) -> bool:
        if not place.block.disagreements:
            return False
        apart = place.block.disagreements[place.node]
        if 0 <= apart < self.agreement:
            return True
        return apart > self.divergence and place.node == preferred(place)


def preferred(place: Place) -> int | None:
    """The guess whose branch the target finds likeliest per token; None: it would rather say its own."""
    followers = trees.children(place.block.tree)
    own = float(place.logprobs()[place.own])
    scored = [(_likelihood(place, node, followers), node) for node in place.siblings]
    best, node = max(scored)
    return node if best >= own else None


def _likelihood(place: Place, node: int, followers: list[list[int]]) -> float:
    """The mean log-probability of a branch down its first followers."""
    total, count, row = 0.0, 0, place.row
    while True:
        logprobs = place.target.logprobs(row, COMMON_TEMPERATURE)
        total += float(logprobs[place.block.token_ids[node]])
        count, row = count + 1, node + 1
        if not followers[row]:
            return total / count
        node = followers[row][0]
