"""How often guesses stand, counted with a short memory."""

from __future__ import annotations

import heapq
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from verify_service.drafts.control.base import Outcome

_FIRST_GUESS = 0.6  # acceptance of a draft that nothing is known of
_SIBLING = 0.2  # and of each further guess where the earlier ones were refused
_SOURCE_KEEPS = 0.995  # per block, of what all sessions say together
_SLOW_KEEPS = 0.97  # of what a session says: about 33 blocks
_FAST_KEEPS = 0.8  # about 5
_SOURCE_STRENGTH = 2.0
_SESSION_STRENGTH = 0.25
_BORROWED = 2.0  # tries
_FIRST_WEIGHT = 3.0  # blocks that a session's own must outweigh
_SURPRISE = 2.5  # standard deviations


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

    def of_few(self) -> Share:
        """The same rate, but known from a few tries."""
        part = _BORROWED / max(self.tried, _BORROWED)
        return Share(part * self.tried, part * self.hits)

    def mean(self, prior: float, strength: float) -> float:
        return (self.hits + strength * prior) / (self.tried + strength)


@dataclass(slots=True)
class Tracked:
    """A share with a long memory, for what stays as it is, beside one with a short memory. When the short one
    says what the long one all but excludes, something has changed, and the long one is forgotten."""

    slow: Share = field(default_factory=Share)
    fast: Share = field(default_factory=Share)

    @classmethod
    def believed(cls, rate: float) -> Tracked:
        return cls(Share(_FIRST_WEIGHT, _FIRST_WEIGHT * rate), Share())

    def keep(self) -> None:
        self.slow.keep(_SLOW_KEEPS)
        self.fast.keep(_FAST_KEEPS)

    def add(self, hit: bool) -> None:
        self.slow.add(hit)
        self.fast.add(hit)
        expected = self.slow.mean(0.5, 1.0)
        # Weights that fall by k from one to the next average like (1 + k) times as many equal ones.
        variance = expected * (1 - expected) / (self.fast.tried * (1 + _FAST_KEEPS))
        if abs(self.fast.hits / self.fast.tried - expected) > _SURPRISE * math.sqrt(variance):
            self.slow = Share(self.fast.tried, self.fast.hits)

    def mean(self, prior: float) -> float:
        return self.slow.mean(prior, _SESSION_STRENGTH)


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


class SourceRates:
    """Rates of a source in all sessions. What is unknown of a depth is taken from the one before."""

    def __init__(self, like: SourceRates | None = None) -> None:
        """
        Args:
            like: what it begins with, until there are a few blocks of its own.
        """
        self._depths: list[Share] = [share.of_few() for share in like._depths] if like else []
        self._ranks: list[Share] = [share.of_few() for share in like._ranks] if like else []
        self._offers: list[Share] = [share.of_few() for share in like._offers] if like else []
        self._rates: dict[int, tuple[list[float], list[float]]] = {}

    def observe(self, outcome: Outcome) -> None:
        for share in itertools.chain(self._depths, self._ranks, self._offers):
            share.keep(_SOURCE_KEEPS)
        for shares, index, hit in _trials(outcome, self._depths, self._ranks, self._offers):
            _at(shares, index, Share).add(hit)
        self._rates.clear()

    def chain(self, count: int) -> tuple[list[float], list[float]]:
        """By depth and by number, as those of ``SessionRates``."""
        if count not in self._rates:
            self._rates[count] = (
                _chained(self._depths, _FIRST_GUESS, count),
                _chained(self._offers, 1.0, count),
            )
        return self._rates[count]

    def rank(self, rank: int) -> float:
        share = self._ranks[rank] if rank < len(self._ranks) else Share()
        return share.mean(_SIBLING, _SOURCE_STRENGTH)


class SessionRates:
    """Of a source in one session: begins with what the source does elsewhere, which its own blocks outweigh
    before long."""

    def __init__(self, source: SourceRates, count: int) -> None:
        """
        Args:
            count: most guesses of a block.
        """
        depths, there = source.chain(count)
        self._source = source
        self._depths = [Tracked.believed(rate) for rate in depths]
        self._ranks: list[Tracked] = []
        self._offers = [Tracked.believed(rate) for rate in there]

    def observe(self, outcome: Outcome) -> None:
        """Everything fades, so that what is not tried any more is forgotten too."""
        for tracked in itertools.chain(self._depths, self._ranks, self._offers):
            tracked.keep()
        for tracks, index, hit in _trials(outcome, self._depths, self._ranks, self._offers):
            _at(tracks, index, Tracked).add(hit)

    def depths(self, count: int) -> list[float]:
        """That the first guess at each depth is there and stands, given that the ones before it stood."""
        return _blended(self._depths, self._source.chain(count)[0])

    def there(self, count: int) -> list[float]:
        """That a block has more than 0, 1, 2 … guesses when it was asked for more than that."""
        return _blended(self._offers, self._source.chain(count)[1])

    def rank(self, rank: int) -> float:
        """That the guess of a rank above 0 stands, given that it is there and no earlier sibling did."""
        tracked = self._ranks[rank] if rank < len(self._ranks) else Tracked()
        return tracked.mean(self._source.rank(rank))


def guesses(rates: SessionRates, count: int, width: int) -> list[Guess]:
    """The ``count`` guesses of a block in the order of what they are worth.

    A guess is worth the probability that the target comes to it and takes it: along a chain the product of
    the rates of the depths down to it; in a tree (as in EAGLE-2, Li et al. 2024) the same along its path,
    where a sibling of rank r counts its own rate times that of all the earlier ones being refused. The sum
    over a block is the expected number of guesses that stand (Leviathan et al. 2023, equation 1, without its
    assumption that every position has the same rate).
    """
    depths = rates.depths(count)
    rows = itertools.accumulate(rates.there(count), min)
    if width == 1:
        ordered = [(worth, 0) for worth in itertools.accumulate(depths, operator.mul)]
    else:
        ranks = [rates.rank(rank) for rank in range(width)]
        ordered = list(itertools.islice(_best_first(depths, ranks), count))
    return [Guess(worth, row, rank) for (worth, rank), row in zip(ordered, rows, strict=True)]


def _best_first(depths: Sequence[float], ranks: Sequence[float]) -> Iterator[tuple[float, int]]:
    """Worth and rank of the guesses of a tree, no deeper than ``depths``; its nodes outnumber them."""
    order = itertools.count()
    frontier = [(-depths[0], next(order), 1.0, 0, 0)]  # worth; what is left of its position; depth; rank
    while frontier:
        negated, _, left, depth, rank = heapq.heappop(frontier)
        worth = -negated
        yield worth, rank
        if depth + 1 < len(depths):
            heapq.heappush(frontier, (-worth * depths[depth + 1], next(order), worth, depth + 1, 0))
        if rank + 1 < len(ranks):
            left -= worth
            heapq.heappush(frontier, (-left * ranks[rank + 1], next(order), left, depth, rank + 1))


T = TypeVar("T")


def _trials(
    outcome: Outcome, depths: list[T], ranks: list[T], offers: list[T]
) -> Iterator[tuple[list[T], int, bool]]:
    """What was tried, where it counts, and whether it held."""
    for place in outcome.places:
        yield depths, place.depth, place.accepted == 0
        last = place.guesses - 1 if place.accepted is None else place.accepted
        yield from ((ranks, rank, place.accepted == rank) for rank in range(1, last + 1))
    if outcome.offered is not None:
        for index in range(outcome.choice.block_size):
            yield offers, index, index < outcome.offered


def _chained(shares: Sequence[Share], first: float, count: int) -> list[float]:
    rates, rate = [], first
    for index in range(count):
        if index < len(shares):
            rate = shares[index].mean(rate, _SOURCE_STRENGTH)
        rates.append(rate)
    return rates


def _blended(tracks: Sequence[Tracked], priors: Sequence[float]) -> list[float]:
    own = [tracked.mean(prior) for tracked, prior in zip(tracks, priors, strict=False)]
    return own + list(priors[len(own) :])


def _at(found: list[T], index: int, make: Callable[[], T]) -> T:
    found.extend(make() for _ in range(index + 1 - len(found)))
    return found[index]
