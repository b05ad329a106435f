"""Chinese numerals, alone ("一万五千亿", "三点五") or with digits among them ("1亿2000万", "1.5万亿")."""

from __future__ import annotations

import re

from fact_check_service.number import ONE, Number, plain

DIGITS = dict(zip("〇零一二两三四五六七八九", (0, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9), strict=True))
_PLACES = {"亿": 8, "万": 4, "千": 3, "百": 2, "十": 1}
_ARABIC = re.compile(r"[0-9]{1,30}+(?:\.[0-9]{1,30}+)?+")
_POINT = re.compile(r"(?P<whole>[^点]+)点(?P<decimals>[〇零一二三四五六七八九]+)(?P<scale>[千百十万亿]*)")


def parse(numeral: str) -> Number | None:
    """The number; None when the characters do not make one up, as in "三五"."""
    pointed = _POINT.fullmatch(numeral) if "点" in numeral else None
    if pointed is None:
        return _whole(numeral)
    before = _whole(pointed["whole"])
    if before is None:
        return None
    power = sum(_PLACES[character] for character in pointed["scale"])
    return before.pointed(digits_of(pointed["decimals"])).scaled(power)


def digits_of(numeral: str) -> str:
    """Digits read one by one: 二〇二四 is 2024."""
    return "".join(str(DIGITS.get(character, character)) for character in numeral)


def _whole(numeral: str) -> Number | None:
    """Split at the last of the highest place: before it stands how often, behind it what is added."""
    for character, power in _PLACES.items():
        before, found, after = numeral.rpartition(character)
        if found:
            times = _whole(before) if before else ONE
            if times is None or not after:
                return times and times.scaled(power)
            rest = _rest(after, power)
            fits = rest is not None and rest.below(power)
            return times.scaled(power).plus(rest) if rest is not None and fits else None
    return _digit(numeral)


def _rest(after: str, power: int) -> Number | None:
    """What follows a place; a last digit alone counts the place below, as 五 does in 一万五."""
    if after[0] in "零〇":
        return _whole(after[1:])
    rest = _whole(after)
    colloquial = len(after) == 1 and after not in _PLACES and power > 1
    return rest.scaled(power - 1) if rest and colloquial else rest


def _digit(numeral: str) -> Number | None:
    if numeral in DIGITS:
        return Number(DIGITS[numeral], 0)
    return plain(numeral) if _ARABIC.fullmatch(numeral) else None
