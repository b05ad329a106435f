"""Whether and from which pools a request is drafted."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.switches import State
from router.learning.bandit import Bandit
from router.steering import Steering

Classes = Sequence[tuple[str, float]]
"""What a prompt may be, with weights, the likeliest first."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Of the answers that are drafted as a rule.

    Attributes:
        plain: those that are not, to see what drafts are worth; ``first_plain`` while that is not known.
        watched: those with a resting pool in shadow, to see whether it would pay again.
    """

    plain: float = 0.0
    first_plain: float = 0.0
    watched: float = 0.0


@dataclass(frozen=True, slots=True)
class Pools:
    """Draft pools in order of preference; none: plain decoding. ``why``: in words."""

    names: tuple[str, ...] = ()
    why: str = ""
    shadow: bool = False


class Drafting:
    """
    Args:
        pools_of: the pools that a class may use, in order of preference as long as nothing is learned.
        steering: as it is now.
        needs_plain: whether little is known of a class's plain answers.
    """

    def __init__(
        self,
        pools_of: Callable[[str], Sequence[str]],
        bandit: Bandit,
        *,
        steering: Callable[[], Steering] = Steering,
        shares: Shares = Shares(),
        needs_plain: Callable[[str], bool] = lambda _: False,
        rng: random.Random,
    ) -> None:
        self._pools_of = pools_of
        self._bandit = bandit
        self._steering = steering
        self._shares = shares
        self._needs_plain = needs_plain
        self._rng = rng

    def choose(self, classes: Classes) -> Pools:
        prompt_class, steering = classes[0][0], self._steering()
        configured = tuple(self._pools_of(prompt_class))
        state = steering.state(prompt_class)
        if not configured:
            return Pools(why="no draft pool for this class: plain decoding")
        if state is State.OFF:
            return Pools(why="switched off: plain decoding")
        if state is State.SHADOW:
            return Pools(configured, "switched to shadow", shadow=True)
        return self._trickled(prompt_class, configured, steering) or self._ranked(
            classes, configured, steering
        )

    def _trickled(self, prompt_class: str, configured: tuple[str, ...], steering: Steering) -> Pools | None:
        """The small shares of answers that are there to be compared with; None: this one is not."""
        drawn, plain = self._rng.random(), self._shares.plain
        if self._needs_plain(prompt_class):
            plain = max(plain, self._shares.first_plain)
        if drawn < plain:
            return Pools(why="plain decoding, to compare with")
        resting = [pool for pool in configured if (prompt_class, pool) in steering.resting]
        if resting and drawn < plain + self._shares.watched:
            return Pools((self._rng.choice(resting),), "resting, watched", shadow=True)
        return None

    def _ranked(self, classes: Classes, configured: tuple[str, ...], steering: Steering) -> Pools:
        prompt_class = classes[0][0]
        awake = [pool for pool in configured if (prompt_class, pool) not in steering.resting]
        if not awake:
            return Pools(why="no draft pays for this class: plain decoding")
        ranking = self._bandit.rank(classes, awake)
        return Pools(ranking.pools, "tried" if ranking.explores else "")
