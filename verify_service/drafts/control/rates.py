"""How often guesses stand, counted with a short memory."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from verify_service.drafts.control.base import Outcome

_FIRST_GUESS = 0.6  # acceptance of a draft that nothing is known of
_SIBLING = 0.2  # and of each further guess where the earlier ones were refused
_SOURCE_MEMORY = 0.995  # kept per block, by what all sessions say together
_SOURCE_STRENGTH = 2.0
_SESSION_STRENGTH = 0.25
_FIRST_WEIGHT = 3.0  # blocks that a session's own must outweigh


@dataclass(slots=True)
class Share:
    """Discounted counts, as those of a Beta distribution."""

    tried: float = 0.0
    hits: float = 0.0

    def keep(self, part: float) -> None:
        self.tried *= part
        self.hits *= part

    def add(self, hit: bool) -> None:
        self.tried += 1
        self.hits += hit

    def mean(self, prior: float, strength: float) -> float:
        return (self.hits + strength * prior) / (self.tried + strength)


@dataclass(frozen=True, slots=True)
class Guess:
    """One more guess of a block, the best that is left.

    Attributes:
        worth: the tokens it is expected to add.
        rows: the rows it is expected to add to the pass; below 1 where the draft often has nothing to say.
        rank: among its siblings.
    """

    worth: float
    rows: float
    rank: int


class Rates(Protocol):
    """Rates at which a source's guesses stand; depths, ranks and counts from 0."""

    def depth(self, depth: int) -> float:
        """That the first guess at a depth is there and stands, given that the ones before it stood."""
        ...

    def rank(self, rank: int) -> float:
        """That the guess of a rank above 0 stands, given that it is there and no earlier sibling did."""
        ...

    def there(self, index: int) -> float:
        """That a block has more than ``index`` guesses when it was asked for more than that."""
        ...


@dataclass(slots=True)
class Counts:
    """The counts behind ``Rates``."""

    depths: list[Share] = field(default_factory=list)
    ranks: list[Share] = field(default_factory=list)
    offers: list[Share] = field(default_factory=list)

    def observe(self, outcome: Outcome, keep: float) -> None:
        """Discount everything by ``keep``, so that what is not tried any more is forgotten too."""
        for share in itertools.chain(self.depths, self.ranks, self.offers):
            share.keep(keep)
        for place in outcome.places:
            _at(self.depths, place.depth).add(place.accepted == 0)
            last = place.guesses - 1 if place.accepted is None else place.accepted
            for rank in range(1, last + 1):
                _at(self.ranks, rank).add(place.accepted == rank)
        if outcome.offered is not None:
            for index in range(outcome.choice.block_size):
                _at(self.offers, index).add(index < outcome.offered)


class SourceRates:
    """Of a source in all sessions. What is unknown of a depth is taken from the one before."""

    def __init__(self) -> None:
        self._counts = Counts()

    def observe(self, outcome: Outcome) -> None:
        self._counts.observe(outcome, _SOURCE_MEMORY)

    def depth(self, depth: int) -> float:
        return _chained(self._counts.depths, depth, _FIRST_GUESS)

    def rank(self, rank: int) -> float:
        return _share(self._counts.ranks, rank).mean(_SIBLING, _SOURCE_STRENGTH)

    def there(self, index: int) -> float:
        return _chained(self._counts.offers, index, 1.0)


class SessionRates:
    """Of a source in one session: begins with what the source does elsewhere, which its own blocks outweigh
    before long."""

    def __init__(self, source: SourceRates, depths: int) -> None:
        self._source = source
        self._counts = Counts(
            [_believed(source.depth(depth)) for depth in range(depths)],
            [],
            [_believed(source.there(index)) for index in range(depths)],
        )

    def observe(self, outcome: Outcome, keep: float) -> None:
        self._counts.observe(outcome, keep)

    def depth(self, depth: int) -> float:
        return _share(self._counts.depths, depth).mean(self._source.depth(depth), _SESSION_STRENGTH)

    def rank(self, rank: int) -> float:
        return _share(self._counts.ranks, rank).mean(self._source.rank(rank), _SESSION_STRENGTH)

    def there(self, index: int) -> float:
        return _share(self._counts.offers, index).mean(self._source.there(index), _SESSION_STRENGTH)


def guesses(rates: Rates, count: int, width: int) -> list[Guess]:
    """The ``count`` guesses of a block in the order of what they are worth.

    A guess is worth the probability that the target comes to it and takes it: along a chain the product of
    the rates of the depths down to it; in a tree (as in EAGLE-2, Li et al. 2024) the same along its path,
    where a sibling of rank r counts its own rate times that of all the earlier ones being refused. The sum
    over a block is the expected number of guesses that stand (Leviathan et al. 2023, equation 1, without its
    assumption that every position has the same rate).
    """
    found: list[Guess] = []
    rows = 1.0
    for index, (worth, rank) in enumerate(itertools.islice(_best_first(rates, width), count)):
        rows = min(rows, rates.there(index))
        found.append(Guess(worth, rows, rank))
    return found


def _best_first(rates: Rates, width: int) -> Iterator[tuple[float, int]]:
    """Worth and rank of the guesses of an endless tree."""
    order = itertools.count()
    frontier = [(-rates.depth(0), next(order), 1.0, 0, 0)]  # worth; reached by its earlier siblings' refusal
    while True:
        negated, _, reached, depth, rank = heapq.heappop(frontier)
        worth = -negated
        yield worth, rank
        heapq.heappush(frontier, (-worth * rates.depth(depth + 1), next(order), worth, depth + 1, 0))
        if rank + 1 < width:
            left = reached - worth
            heapq.heappush(frontier, (-left * rates.rank(rank + 1), next(order), left, depth, rank + 1))


def _chained(shares: list[Share], index: int, first: float) -> float:
    rate = first
    for share in shares[: index + 1]:
        rate = share.mean(rate, _SOURCE_STRENGTH)
    return rate


def _believed(rate: float) -> Share:
    return Share(_FIRST_WEIGHT, _FIRST_WEIGHT * rate)


def _share(shares: list[Share], index: int) -> Share:
    return shares[index] if index < len(shares) else Share()


def _at(shares: list[Share], index: int) -> Share:
    shares.extend(Share() for _ in range(index + 1 - len(shares)))
    return shares[index]
