"""What lossy policies share: how a block is gone through, and how far that led from the target.

Every policy is a pure function of the target's rows and the block. A guess may stand that is not the target's
own choice; what follows the last one that stands is always the target's own, drawn under keyed noise. A token
that the request does not allow never stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from common import trees
from common.draft_types import Block, SparseDistribution
from verify_service.acceptance.target import TargetRows, Verdict

COMMON_TEMPERATURE = 0.6
"""At which draft and target are compared."""


class Policy(Protocol):
    """One rule with its parameters; found by ``name`` in ``policies``."""

    name: ClassVar[str]

    def accept(self, target: TargetRows, block: Block, seed: int) -> Verdict: ...


@dataclass(frozen=True, slots=True)
class Place:
    """A guess, ``node``, for the position that the target says ``row`` about."""

    target: TargetRows
    block: Block
    row: int
    node: int
    seed: int

    @property
    def guess(self) -> int:
        return self.block.token_ids[self.node]

    @property
    def depth(self) -> int:
        """Guesses between it and the committed text."""
        return len(self.target.path(self.row))

    @property
    def own(self) -> int:
        """What the target would say here."""
        return self.target.choice(self.row, self.seed)

    @property
    def siblings(self) -> list[int]:
        return trees.children(self.block.tree)[self.row]

    def logprobs(self, temperature: float = COMMON_TEMPERATURE) -> Tensor:
        """The target's: float64 [vocabulary]."""
        return self.target.logprobs(self.row, temperature)

    def divergence(self, temperature: float = COMMON_TEMPERATURE) -> float:
        """``normalised_kl`` of what the draft believed here."""
        return normalised_kl(self.block.distribution_of(self.node), self.logprobs(temperature))


Stands = Callable[[Place], bool]


def accept_where(target: TargetRows, block: Block, seed: int, stands: Stands) -> Verdict:
    """From the root down: the guess that is the target's own choice, else the first that ``stands``."""
    following = trees.children(block.tree)
    nodes: list[int] = []
    row = 0
    while True:
        places = [Place(target, block, row, node, seed) for node in following[row]]
        own = target.choice(row, seed)
        kept = next((place.node for place in places if place.guess == own), None)
        if kept is None:
            kept = next((place.node for place in places if allowed(place) and stands(place)), None)
        if kept is None:
            return Verdict(tuple(nodes), own)
        nodes.append(kept)
        row = kept + 1


def allowed(place: Place) -> bool:
    return bool(place.logprobs()[place.guess] > -math.inf)


def normalised_kl(draft: SparseDistribution, target: Tensor) -> float:
    """KL(draft ‖ target) / log(vocabulary): 0 where they agree, infinite where the target rules a token out.

    Args:
        target: log-probabilities, float64 [vocabulary].
    """
    q = torch.tensor(draft.probabilities, dtype=torch.float64)
    q = q / q.sum()
    p = target[torch.tensor(draft.token_ids)].cpu()
    return max(0.0, float((q * (q.log() - p)).sum())) / math.log(len(target))


@dataclass(frozen=True, slots=True)
class Deviation:
    """``strayed``: the target would have chosen another token. ``nkl``: ``normalised_kl``, at most 1."""

    strayed: bool
    nkl: float


def deviations(target: TargetRows, block: Block, seed: int, verdict: Verdict) -> tuple[Deviation, ...]:
    """Of each guess that stands."""
    rows = (0, *(node + 1 for node in verdict.nodes))
    places = (Place(target, block, row, node, seed) for row, node in zip(rows, verdict.nodes, strict=False))
    return tuple(Deviation(place.guess != place.own, min(1.0, place.divergence())) for place in places)
