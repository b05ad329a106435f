"""How far apart several sources are where they guess the same span."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping

from common import trees
from common.draft_types import SparseDistribution
from draft_service.sources.base import Guess
from draft_service.sources.standing import parents_of

Path = tuple[int, ...]

ALONE = -1.0
"""Where one source has a guess only."""


def disagreements(merged: Guess, guesses: Iterable[Guess], vocabulary_size: int) -> tuple[float, ...]:
    """Of each guess of ``merged``: how far apart the closest two sources' beliefs are at its position."""
    believed = [_beliefs(guess) for guess in guesses]
    closest: dict[Path, float] = {}
    found = []
    for parent in parents_of(merged):
        above = _path(merged, parent)
        if above not in closest:
            there = [beliefs[above] for beliefs in believed if above in beliefs]
            pairs = itertools.combinations(there, 2)
            closest[above] = min((divergence(a, b, vocabulary_size) for a, b in pairs), default=ALONE)
        found.append(closest[above])
    return tuple(found)


def divergence(one: SparseDistribution, other: SparseDistribution, vocabulary_size: int) -> float:
    """KL / log(vocabulary), in the direction in which it is smaller; at most 1.

    A source that is certain has no tails, so in one of the directions it is infinitely far from every other.
    """
    smaller = min(_kl(one, other), _kl(other, one))
    return min(1.0, max(0.0, smaller) / math.log(vocabulary_size))


def _kl(one: SparseDistribution, other: SparseDistribution) -> float:
    known = dict(zip(other.token_ids, other.probabilities, strict=True))
    terms = zip(one.token_ids, one.probabilities, strict=True)
    return sum(q * math.log(q / known[token]) if token in known else math.inf for token, q in terms)


def _beliefs(guess: Guess) -> Mapping[Path, SparseDistribution]:
    """By the guesses before; a source that does not say was certain of its first one."""
    found: dict[Path, SparseDistribution] = {}
    for node, parent in enumerate(parents_of(guess)):
        said = guess.shown[node] if guess.shown else SparseDistribution.certain(guess.token_ids[node])
        found.setdefault(_path(guess, parent), said)
    return found


def _path(guess: Guess, node: int) -> Path:
    return tuple(guess.token_ids[step] for step in trees.path(parents_of(guess), node))
