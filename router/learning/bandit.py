"""Which draft pool pays for which class of prompts: a bandit with discounted statistics.

Thompson sampling (Thompson 1933) on a normal model of the logarithm of tokens per second of verify time. The
past is discounted (Garivier & Moulines 2011), so what stays unused becomes uncertain and is tried again, and
exploring is bounded: at most a given share of a class's answers goes to another pool than the best known one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from router.learning.arm import Arm

_LEAST_SPREAD = 0.02
_FIRST_SPREAD = 0.5
_MOST_POOLS = 64


@dataclass(frozen=True, slots=True)
class Learning:
    """
    Attributes:
        horizon: answers of a class after which one counts a third.
        tries: of a pool before its value is believed; they are not bounded by ``explore``.
        explore: most of a class's answers that may go to other pools than the best known.
        sigmas: by which a pool's last answers must differ from its earlier ones to be taken for a change.
    """

    horizon: float = 100.0
    tries: int = 2
    explore: float = 0.15
    sigmas: float = 4.0


@dataclass(slots=True)
class _Class:
    """``explored``: share of the last plans that went to others than the best known, smoothed."""

    arms: dict[str, Arm] = field(default_factory=dict)
    variance: float = _FIRST_SPREAD**2
    explored: float = 0.0
    changes: int = 0

    @property
    def spread(self) -> float:
        return max(math.sqrt(self.variance), _LEAST_SPREAD)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Pools, best first. ``explores``: the first one is tried, others are known to be better."""

    pools: tuple[str, ...]
    explores: bool = False


class Bandit:
    def __init__(self, learning: Learning = Learning(), rng: random.Random | None = None) -> None:
        self._learning = learning
        self._rng = rng or random.Random()
        self._classes: dict[str, _Class] = {}

    def learn(self, prompt_class: str, pool: str, value: float) -> None:
        """``value``: logarithm of tokens per second of verify time."""
        known = self._classes.setdefault(prompt_class, _Class())
        if pool not in known.arms and len(known.arms) >= _MOST_POOLS:
            return
        keep = 1 - 1 / self._learning.horizon
        for arm in known.arms.values():
            arm.fade(keep)
        arm = known.arms.setdefault(pool, Arm())
        first = arm.weight == 0
        surprise = arm.add(value)
        if not first:
            # One value that is far off is no noise yet; the next ones will tell.
            known.variance += (min(surprise**2, 9 * known.spread**2) - known.variance) / 20
        if arm.drifted(known.spread, self._learning.sigmas):
            known.changes += 1
            for other in known.arms.values():
                other.shake(1.0)

    def rank(self, classes: Sequence[tuple[str, float]], pools: Sequence[str]) -> Ranking:
        """
        Args:
            classes: what the prompt may be, with weights, the likeliest first.
            pools: to choose from, in the configured order, which decides where nothing is known.
        """
        if len(pools) < 2:
            return Ranking(tuple(pools))
        own = self._classes.setdefault(classes[0][0], _Class())
        untried = [pool for pool in pools if self._tries(own, pool) < self._learning.tries]
        if untried:
            first = min(untried, key=lambda pool: self._tries(own, pool))
            return Ranking((first, *(pool for pool in pools if pool != first)))
        known = sorted(pools, key=lambda pool: self._value(classes, pool), reverse=True)
        tried = max(pools, key=lambda pool: self._sample(classes, pool))
        explores = tried != known[0] and own.explored < self._learning.explore
        own.explored += (explores - own.explored) / self._learning.horizon
        if not explores:
            return Ranking(tuple(known))
        return Ranking((tried, *(pool for pool in known if pool != tried)), explores=True)

    def values(self) -> Mapping[tuple[str, str], float]:
        """Tokens per second of verify time, by class and pool, as believed now."""
        return {
            (prompt_class, pool): math.exp(arm.mean)
            for prompt_class, known in self._classes.items()
            for pool, arm in known.arms.items()
        }

    def changes(self) -> Mapping[str, int]:
        """How often a class's pools were found to have changed."""
        return {prompt_class: known.changes for prompt_class, known in self._classes.items()}

    def _tries(self, known: _Class, pool: str) -> int:
        arm = known.arms.get(pool)
        return 0 if arm is None else max(arm.seen, round(arm.weight))

    def _value(self, classes: Sequence[tuple[str, float]], pool: str) -> float:
        """Believed, beside the other pools of each class that the prompt may be."""
        return sum(weight * self._beside(name, pool)[0] for name, weight in classes)

    def _sample(self, classes: Sequence[tuple[str, float]], pool: str) -> float:
        return sum(weight * self._rng.gauss(*self._beside(name, pool)) for name, weight in classes)

    def _beside(self, prompt_class: str, pool: str) -> tuple[float, float]:
        """How much better than the class's mean the pool is, with its standard error; what was never tried is
        as good as the mean."""
        known = self._classes.get(prompt_class)
        if known is None or pool not in known.arms:
            return 0.0, 0.0
        arm = known.arms[pool]
        mean = sum(other.mean for other in known.arms.values()) / len(known.arms)
        return arm.mean - mean, known.spread / math.sqrt(max(arm.weight, 0.1))
