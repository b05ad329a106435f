"""Which pool pays, found out and found again."""

from __future__ import annotations

import math
import random

import pytest

from router.learning.arm import Arm
from router.learning.bandit import Bandit, Learning

CLASSES = ("chat", "code", "math", "rag")
POOLS = ("ngram", "model", "eagle")


class World:
    """Four classes, each with a pool that is worth ``gap`` more, in a logarithm, than any other."""

    def __init__(self, seed: int, gap: float = 0.15, noise: float = 0.15) -> None:
        self._rng = random.Random(seed)
        self._noise = noise
        self.bandit = Bandit(Learning(), random.Random(seed + 1))
        self.best = {name: self._rng.choice(POOLS) for name in CLASSES}
        self._worth = {
            (name, pool): math.log(100) + (gap if pool == self.best[name] else self._rng.uniform(-gap, 0))
            for name in CLASSES
            for pool in POOLS
        }

    def swap(self) -> None:
        """In every class the best and the worst pool change places."""
        for name in CLASSES:
            worst = min(POOLS, key=lambda pool: self._worth[name, pool])
            best, worth = self.best[name], self._worth
            worth[name, worst], worth[name, best] = worth[name, best], worth[name, worst]
            self.best[name] = worst

    def serve(self, requests: int) -> tuple[float, float]:
        """Shares of requests that went to the best pool of their class, and that were trials."""
        right = tried = 0
        for _ in range(requests):
            name, *others = self._rng.sample(CLASSES, 3)
            ranking = self.bandit.rank([(name, 0.8), (others[0], 0.1), (others[1], 0.05)], POOLS)
            pool = ranking.pools[0]
            right += pool == self.best[name]
            tried += ranking.explores
            self.bandit.learn(name, pool, self._rng.gauss(self._worth[name, pool], self._noise))
        return right / requests, tried / requests

    def found(self) -> bool:
        values = self.bandit.values()
        return all(max(POOLS, key=lambda pool: values[name, pool]) == self.best[name] for name in CLASSES)


@pytest.mark.parametrize("seed", range(8))
def test_it_finds_the_best_of_three_pools_for_four_classes_within_300_requests(seed: int) -> None:
    world = World(seed)
    world.serve(300)
    assert world.found()
    assert world.serve(300)[0] > 0.85


@pytest.mark.parametrize("seed", range(8))
def test_after_a_swap_it_finds_the_new_best(seed: int) -> None:
    world = World(seed, gap=0.2, noise=0.1)
    world.serve(300)
    world.swap()
    world.serve(300)
    assert world.found()
    assert world.serve(300)[0] > 0.85


@pytest.mark.parametrize("gap", [0.0, 0.02, 0.15])
def test_trials_of_worse_pools_are_bounded(gap: float) -> None:
    bandit = Bandit(Learning(explore=0.1), random.Random(3))
    world = World(5, gap=gap, noise=0.3)
    world.bandit = bandit
    world.serve(500)
    assert world.serve(2000)[1] <= 0.12


def test_without_trials_the_best_known_pool_is_kept() -> None:
    world = World(5, gap=0.0, noise=0.3)
    world.bandit = Bandit(Learning(explore=0.0), random.Random(3))
    world.serve(200)
    assert world.serve(500)[1] == 0.0


def test_a_pool_that_was_never_tried_is_tried_first_in_the_configured_order() -> None:
    bandit = Bandit(Learning(tries=1))
    assert bandit.rank([("chat", 1.0)], POOLS).pools == POOLS
    bandit.learn("chat", "ngram", 9.0)
    assert bandit.rank([("chat", 1.0)], POOLS).pools[0] == "model"
    bandit.learn("chat", "model", 5.0)
    bandit.learn("chat", "eagle", 1.0)
    assert bandit.rank([("chat", 1.0)], POOLS).pools[0] == "ngram"


def test_a_single_pool_needs_no_learning() -> None:
    assert Bandit().rank([("chat", 1.0)], ("ngram",)).pools == ("ngram",)
    assert Bandit().rank([("chat", 1.0)], ()).pools == ()


def test_what_the_prompt_may_also_be_counts_by_its_weight() -> None:
    bandit = Bandit(Learning(tries=1, explore=0.0))
    for name, ngram, model in (("chat", 5.0, 5.01), ("code", 9.0, 5.0)):
        bandit.learn(name, "ngram", ngram)
        bandit.learn(name, "model", model)
    pools = ("model", "ngram")
    assert bandit.rank([("chat", 1.0)], pools).pools[0] == "model"
    assert bandit.rank([("chat", 0.6), ("code", 0.4)], pools).pools[0] == "ngram"


def test_a_change_is_noticed_and_what_was_known_counts_for_little() -> None:
    bandit = Bandit(Learning(tries=1), random.Random(1))
    rng = random.Random(2)
    for _ in range(40):
        bandit.learn("chat", "ngram", rng.gauss(5.0, 0.05))
        bandit.learn("chat", "model", rng.gauss(4.0, 0.05))
    assert bandit.changes() == {"chat": 0}
    for _ in range(4):
        bandit.learn("chat", "ngram", rng.gauss(3.0, 0.05))
    assert bandit.changes()["chat"] >= 1
    assert math.log(bandit.values()["chat", "ngram"]) == pytest.approx(3.3, abs=0.5)


def test_names_that_somebody_else_chooses_are_bounded() -> None:
    bandit = Bandit()
    for number in range(1000):
        bandit.learn("chat", f"pool-{number}", 1.0)
    assert len(bandit.values()) == 64


def test_the_past_of_an_arm_fades() -> None:
    arm = Arm()
    for _ in range(10):
        arm.add(1.0)
    for _ in range(100):
        arm.fade(0.95)
    arm.add(3.0)
    assert arm.mean > 2.8
