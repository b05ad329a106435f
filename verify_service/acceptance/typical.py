"""``typical``: a guess stands where it is likely enough, given how sure the target is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Interval

from common.draft_types import Block
from verify_service.acceptance.lossy import Place, accept_where
from verify_service.acceptance.target import TargetRows, Verdict


@dataclass(frozen=True)
class Typical:
    """Cai et al. 2024, "Medusa", section 3.3: p(guess) > min(epsilon, delta · exp(−H(p))), with H the entropy
    of what the target believes at ``temperature``."""

    name: ClassVar[str] = "typical"
    epsilon: Annotated[float, Interval(gt=0, le=1)] = 0.09
    delta: Annotated[float, Interval(gt=0, le=1)] = 0.3
    temperature: Annotated[float, Interval(ge=0.05, le=2)] = 0.7

    def accept(self, target: TargetRows, block: Block, seed: int) -> Verdict:
        return accept_where(target, block, seed, self._stands)

    def _stands(self, place: Place) -> bool:
        log_p = place.logprobs(self.temperature)
        p = log_p.exp()
        entropy = -(p * log_p.nan_to_num(neginf=0.0)).sum()
        threshold = min(self.epsilon, self.delta * float((-entropy).exp()))
        return float(p[place.guess]) > threshold
