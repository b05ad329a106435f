"""Whether and from which pools a request is drafted."""

from __future__ import annotations

import random
from collections import Counter

from common.switches import State
from router.drafting import Drafting, Pools, Shares
from router.learning.bandit import Bandit, Learning
from router.steering import Steering

CHAT = [("chat", 0.9), ("code", 0.1)]
POOLS = ("ngram", "model")


def drafting(
    steering: Steering = Steering(),
    shares: Shares = Shares(),
    classes: dict[str, tuple[str, ...]] | None = None,
    bandit: Bandit | None = None,
    needs_plain: bool = False,
) -> Drafting:
    return Drafting(
        lambda prompt_class: (classes or {}).get(prompt_class, POOLS),
        bandit or Bandit(),
        steering=lambda: steering,
        shares=shares,
        needs_plain=lambda _: needs_plain,
        rng=random.Random(5),
    )


def test_a_class_has_its_own_pools_and_others_have_all() -> None:
    subject = drafting(classes={"chat": ("model",), "math": ()})
    assert subject.choose(CHAT).names == ("model",)
    assert subject.choose([("code", 1.0)]).names == POOLS
    assert subject.choose([("math", 1.0)]) == Pools(why="no draft pool for this class: plain decoding")


def test_the_switch_turns_a_class_or_all_off_or_to_shadow() -> None:
    off = drafting(Steering({"chat": State.OFF}))
    assert off.choose(CHAT) == Pools(why="switched off: plain decoding")
    assert off.choose([("code", 1.0)]).names == POOLS
    assert drafting(Steering({"all": State.OFF, "chat": State.ON})).choose(CHAT).names == ()
    shadow = drafting(Steering({"all": State.SHADOW})).choose(CHAT)
    assert shadow.shadow and shadow.names == POOLS


def test_a_resting_pool_is_left_out_and_with_the_last_one_decoding_is_plain() -> None:
    one = drafting(Steering(resting={("chat", "ngram"): "useless"}))
    assert one.choose(CHAT).names == ("model",)
    assert one.choose([("code", 1.0)]).names == POOLS
    both = Steering(resting={("chat", "ngram"): "useless", ("chat", "model"): "slower"})
    assert drafting(both).choose(CHAT).why == "no draft pays for this class: plain decoding"


def test_the_learned_order_decides() -> None:
    bandit = Bandit(Learning(tries=1, explore=0.0))
    bandit.learn("chat", "ngram", 1.0)
    bandit.learn("chat", "model", 2.0)
    assert drafting(bandit=bandit).choose(CHAT).names == ("model", "ngram")


def test_small_shares_are_plain_and_watched() -> None:
    steering = Steering(resting={("chat", "model"): "slower"})
    subject = drafting(steering, Shares(plain=0.02, watched=0.1))
    seen = Counter((pools.names, pools.shadow) for pools in (subject.choose(CHAT) for _ in range(5000)))
    assert abs(seen[(), False] / 5000 - 0.02) < 0.01
    assert abs(seen[("model",), True] / 5000 - 0.1) < 0.02
    assert seen[("ngram",), False] == 5000 - seen[(), False] - seen[("model",), True]


def test_while_plain_answers_are_unknown_more_of_them_are_made() -> None:
    shares = Shares(plain=0.02, first_plain=0.3)
    for needed, share in ((True, 0.3), (False, 0.02)):
        subject = drafting(shares=shares, needs_plain=needed)
        plain = sum(not subject.choose(CHAT).names for _ in range(3000))
        assert abs(plain / 3000 - share) < 0.04


def test_a_switch_is_stronger_than_a_share() -> None:
    subject = drafting(Steering({"all": State.OFF}), Shares(watched=0.5))
    assert all(not subject.choose(CHAT).names for _ in range(50))
