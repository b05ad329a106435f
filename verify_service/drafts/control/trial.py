"""Which of a few ways of working makes the most tokens per second, found out by working in each."""

from __future__ import annotations

from dataclasses import dataclass

_SETTLING = 4  # steps after a change that still feel the way before
_EPOCH = 48  # steps
_GLIMPSE = 12  # steps after which an epoch may be given up …
_HOPELESS = 0.7  # … where its rate is below this part of the best way's
_MEMORY = 16.0  # epochs that a rate remembers
_ROUNDS = 2  # of epochs in which every way is tried before one is chosen
_LEAST_GAIN = 1.02  # what a way must bring over the first
_SHORTEST_GAP, _LONGEST_GAP = 4, 64  # epochs between two trials of other ways


@dataclass(slots=True)
class _Way:
    """What is remembered of its epochs, the latest counting most."""

    tokens: float = 0.0
    seconds: float = 0.0

    def fade(self) -> None:
        self.tokens *= 1 - 1 / _MEMORY
        self.seconds *= 1 - 1 / _MEMORY

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0


class Trial:
    """Works in epochs of some steps, each in one of several ways; the first is the one that costs nothing.

    At the beginning the ways take turns. Then the one with the highest rate is kept, a way other than the
    first only while it makes 2 % more, and now and then an epoch goes to another, more and more seldom while
    that changes nothing. So a way that does not pay costs its loss in one epoch of 65, and one that is far
    too slow, in a quarter of that.
    """

    def __init__(self, ways: int) -> None:
        self._ways = [_Way() for _ in range(ways)]
        self._turns = [way for _ in range(_ROUNDS) for way in range(ways)]
        self._best = 0
        self._gap = _SHORTEST_GAP
        self._waited = 0
        self._challenger = 0
        self._steps = 0
        self._epoch = _Way()
        self.way = self._turns.pop(0)

    @property
    def best(self) -> int:
        """The way kept while no other is tried."""
        return self._best

    @property
    def _hopeless(self) -> bool:
        if self.way == self._best or self._steps < _SETTLING + _GLIMPSE:
            return False
        return self._epoch.rate < _HOPELESS * self._ways[self._best].rate

    def observe(self, tokens: int, seconds: float) -> None:
        """A step in the present way made so many tokens."""
        self._steps += 1
        if self._steps > _SETTLING:
            self._epoch.tokens += tokens
            self._epoch.seconds += seconds
        if self._steps == _SETTLING + _EPOCH or self._hopeless:
            for way in self._ways:
                way.fade()
            self._ways[self.way].tokens += self._epoch.tokens
            self._ways[self.way].seconds += self._epoch.seconds
            self._steps, self._epoch = 0, _Way()
            self.way = self._next()

    def _next(self) -> int:
        if self._turns:
            return self._turns.pop(0)
        before, self._best = self._best, self._leader()
        if self._best != before:
            self._gap, self._waited = _SHORTEST_GAP, 0
        self._waited += 1
        if self._waited <= self._gap or len(self._ways) == 1:
            return self._best
        self._waited, self._gap = 0, min(2 * self._gap, _LONGEST_GAP)
        others = [way for way in range(len(self._ways)) if way != self._best]
        self._challenger += 1
        return others[self._challenger % len(others)]

    def _leader(self) -> int:
        rates = [way.rate for way in self._ways]
        fastest = max(range(len(rates)), key=rates.__getitem__)
        return fastest if rates[fastest] > _LEAST_GAIN * rates[0] else 0
