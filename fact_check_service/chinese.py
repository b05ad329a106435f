"""Chinese numerals, alone ("一万五千亿", "三点五") or with digits among them ("1亿2000万", "1.5万亿")."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

DIGITS = dict(zip("〇零一二两三四五六七八九", (0, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9), strict=True))
PLACES = {"亿": 10**8, "万": 10**4, "千": 10**3, "百": 10**2, "十": 10}

_ARABIC = re.compile(r"[0-9]{1,30}+(?:\.(?P<decimals>[0-9]{1,30}+))?+")
_POINT = re.compile(r"(?P<whole>[^点]+)点(?P<decimals>[〇零一二三四五六七八九]+)(?P<scale>[千百十万亿]*)")


class Number(NamedTuple):
    """A number and the place of its last digit."""

    value: Fraction
    step: Fraction

    def times(self, scale: int | Fraction) -> Number:
        return Number(self.value * scale, self.step * scale)


ONE = Number(Fraction(1), Fraction(1))


def parse(numeral: str) -> Number | None:
    """The number; None when the characters do not make one up, as in "三五"."""
    pointed = _POINT.fullmatch(numeral)
    if pointed is None:
        return _whole(numeral)
    whole, scale = _whole(pointed["whole"]), _whole(pointed["scale"] or "一")
    if whole is None or scale is None:
        return None
    return _with_decimals(whole.value, year_digits(pointed["decimals"])).times(scale.value)


def year_digits(numeral: str) -> str:
    """Digits read one by one: 二〇二四 is 2024."""
    return "".join(str(DIGITS.get(character, character)) for character in numeral)


def _with_decimals(whole: Fraction, decimals: str) -> Number:
    step = Fraction(1, 10 ** len(decimals))
    return Number(whole + int(decimals) * step, step)


def _whole(numeral: str) -> Number | None:
    """Split at the last of the highest place: before it stands how often, behind it what is added."""
    for character, place in PLACES.items():
        before, found, after = numeral.rpartition(character)
        if found:
            times = _whole(before) if before else ONE
            rest = _rest(after, place)
            if times is None or rest is None or rest.value >= place:
                return None
            scaled = times.times(place)
            return Number(scaled.value + rest.value, rest.step if after else scaled.step)
    return _digit(numeral)


def _rest(after: str, place: int) -> Number | None:
    """What follows a place; a last digit alone counts the place below, as 五 does in 一万五."""
    if not after:
        return Number(Fraction(0), Fraction(0))
    if after[0] in "零〇":
        return _whole(after[1:])
    rest = _whole(after)
    colloquial = len(after) == 1 and after not in PLACES and place > 10
    return rest.times(Fraction(place, 10)) if rest and colloquial else rest


def _digit(numeral: str) -> Number | None:
    if numeral in DIGITS:
        return Number(Fraction(DIGITS[numeral]), Fraction(1))
    written = _ARABIC.fullmatch(numeral)
    if written is None:
        return None
    decimals = written["decimals"] or ""
    return Number(Fraction(numeral), Fraction(1, 10 ** len(decimals)))
