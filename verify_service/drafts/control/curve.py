"""A cost that grows with a count, learned while it drifts."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_EXACT = 16  # counts up to here have a bucket of their own, larger ones an eighth of an octave
_PER_OCTAVE = 8
_SHAPE_WEIGHT = 0.2

Point = tuple[float, float]
Shape = Callable[[float], float]


@dataclass(slots=True)
class _Bucket:
    """Discounted sums over what was seen."""

    weight: float = 0.0
    count: float = 0.0
    cost: float = 0.0


class Curve:
    """Costs by count: discounted means over buckets, made monotone, linear in between.

    A count that was not seen for long is believed to cost what ``shape`` says, in proportion to what the
    others cost of late. So the curve follows a machine that becomes slower as a whole, and what once seemed
    too dear is tried again some time.
    """

    def __init__(
        self, shape: Shape, memory: float, *, scale: float = 1.0, surprise: float = math.inf
    ) -> None:
        """
        Args:
            shape: relative costs, positive.
            memory: how many observations count.
            scale: what the shape is multiplied by before anything is seen.
            surprise: a cost of more than so many times what was expected is a hiccup and counts as so much.
        """
        self._shape = shape
        self._keep = 1 - 1 / memory
        self._surprise = surprise
        self._buckets: dict[int, _Bucket] = {}
        self._points: list[Point] | None = None
        self._scale = scale

    def observe(self, count: float, cost: float) -> None:
        if self._surprise < math.inf:
            cost = min(cost, self._surprise * self.at(count))
        for bucket in self._buckets.values():
            bucket.weight *= self._keep
            bucket.count *= self._keep
            bucket.cost *= self._keep
        bucket = self._buckets.setdefault(_bucket(count), _Bucket())
        bucket.weight += 1
        bucket.count += count
        bucket.cost += cost
        self._points = None

    def at(self, count: float) -> float:
        """What so many are believed to cost."""
        if self._points is None:
            self._points = self._fit()
        points = self._points
        place = bisect.bisect_left(points, (count, -math.inf))
        if place == 0 or place == len(points):
            return self._extrapolated(points[:1] if place == 0 else points[-1:], count)
        (x0, y0), (x1, y1) = points[place - 1 : place + 1]
        return y0 + (y1 - y0) * (count - x0) / (x1 - x0)

    def _extrapolated(self, nearest: Sequence[Point], count: float) -> float:
        if not nearest:
            return self._scale * self._shape(count)
        [(x, y)] = nearest
        return max(0.0, y + self._scale * (self._shape(count) - self._shape(x)))

    def _fit(self) -> list[Point]:
        seen = [(b.count / b.weight, b.cost / b.weight, b.weight) for _, b in sorted(self._buckets.items())]
        if seen:
            total = sum(weight for _, _, weight in seen)
            self._scale = sum(w * cost / self._shape(count) for count, cost, w in seen) / total
        blended = [
            (
                count,
                (weight * cost + _SHAPE_WEIGHT * self._scale * self._shape(count)) / (weight + _SHAPE_WEIGHT),
                weight,
            )
            for count, cost, weight in seen
        ]
        return monotone(blended)


def monotone(points: Sequence[tuple[float, float, float]]) -> list[Point]:
    """The non-decreasing least-squares fit to (x, y, weight), by pooling violators (Ayer et al. 1955)."""
    pools: list[tuple[float, float, list[float]]] = []
    for x, y, weight in points:
        level, mass, members = y, weight, [x]
        while pools and pools[-1][0] >= level:
            other, other_mass, earlier = pools.pop()
            level = (level * mass + other * other_mass) / (mass + other_mass)
            mass += other_mass
            members = earlier + members
        pools.append((level, mass, members))
    return list(itertools.chain.from_iterable([(x, level) for x in members] for level, _, members in pools))


def through(points: Sequence[Point]) -> Shape:
    """Piecewise linear through points of growing x; beyond the last its last slope goes on."""
    xs = [x for x, _ in points]

    def shape(count: float) -> float:
        place = min(max(bisect.bisect_left(xs, count), 1), len(points) - 1)
        (x0, y0), (x1, y1) = points[place - 1], points[place]
        return y0 + (y1 - y0) * (max(count, xs[0]) - x0) / (x1 - x0)

    return shape


def _bucket(count: float) -> int:
    if count <= _EXACT:
        return round(count)
    return _EXACT + round(_PER_OCTAVE * math.log2(count / _EXACT))
