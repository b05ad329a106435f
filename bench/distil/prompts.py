"""Chinese arithmetic in words, by template: a domain that the shipped heads have not seen."""

from __future__ import annotations

import random
from collections.abc import Callable

_NAMES = ("小明", "小红", "小华", "李雷", "韩梅梅", "王老师", "张叔叔", "奶奶")
_THINGS = ("个苹果", "本书", "支铅笔", "块糖", "朵花", "张邮票", "个气球", "颗珠子")


def arithmetic(count: int, seed: int) -> list[str]:
    """So many different questions."""
    chance = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[chance.choice(_KINDS)(chance)] = None
    return list(found)


def _bought(chance: random.Random) -> str:
    name, thing = chance.choice(_NAMES), chance.choice(_THINGS)
    return f"{name}有{chance.randint(3, 90)}{thing}，又买了{chance.randint(2, 60)}{thing}，一共有多少？"


def _given(chance: random.Random) -> str:
    had = chance.randint(20, 99)
    name, other = chance.sample(_NAMES, 2)
    thing = chance.choice(_THINGS)
    return f"{name}有{had}{thing}，给了{other}{chance.randint(2, had - 1)}{thing}，还剩多少？"


def _price(chance: random.Random) -> str:
    thing = chance.choice(_THINGS)
    name, price, count = chance.choice(_NAMES), chance.randint(2, 40), chance.randint(2, 12)
    return f"一{thing}卖{price}元，{name}买了{count}{thing}，要付多少元？"


def _shared(chance: random.Random) -> str:
    people, each = chance.randint(2, 9), chance.randint(2, 12)
    return f"把{people * each}{chance.choice(_THINGS)}平均分给{people}个人，每人得到多少？"


def _sum(chance: random.Random) -> str:
    sign = chance.choice("＋－×")
    return f"请计算{chance.randint(10, 99)}{sign}{chance.randint(2, 99)}，并写出步骤。"


_KINDS: tuple[Callable[[random.Random], str], ...] = (_bought, _given, _price, _shared, _sum)
