"""``kl``: a guess stands where the draft's belief is close to the target's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Interval

from common import noise, trees
from common.draft_types import Block
from verify_service.acceptance.lossy import COMMON_TEMPERATURE, Place, accept_where
from verify_service.acceptance.target import TargetRows, Verdict


@dataclass(frozen=True)
class Divergence:
    """Both beliefs are taken at ``temperature``. With NKL = KL(draft ‖ target) / log(vocabulary) and

        δ(depth) = min(cap, delta · (1 + alpha · log₂(depth + 1)))

    a guess stands where NKL < δ. With ``probabilistic`` it does with probability exp(−NKL / δ), under keyed
    noise, so that the same seed gives the same answer.

    A draft that does not say what it believes counts as certain: NKL is then −log p(guess) / log(vocabulary).
    """

    name: ClassVar[str] = "kl"
    delta: Annotated[float, Interval(gt=0, le=1)] = 0.15
    alpha: Annotated[float, Interval(ge=0, le=10)] = 0.08
    cap: Annotated[float, Interval(gt=0, le=1)] = 0.3
    temperature: Annotated[float, Interval(ge=0.05, le=2)] = COMMON_TEMPERATURE
    probabilistic: bool = False

    def accept(self, target: TargetRows, block: Block, seed: int) -> Verdict:
        draws = trees.draws(block.tree)

        def stands(place: Place) -> bool:
            nkl, threshold = place.divergence(self.temperature), self.threshold(place.depth)
            if not self.probabilistic:
                return nkl < threshold
            chance = noise.accept_uniform(seed, target.position(place.row), draws[place.node])
            return chance < math.exp(-nkl / threshold)

        return accept_where(target, block, seed, stands)

    def threshold(self, depth: int) -> float:
        return min(self.cap, self.delta * (1 + self.alpha * math.log2(depth + 1)))
