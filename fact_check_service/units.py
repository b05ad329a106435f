"""Units of measure: how they are found in a text, and how one converts to another of its dimension."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from fact_check_service.unit_table import TABLE

UNITS = {unit.name: unit for unit in TABLE}
_BY_SYMBOL = {symbol: unit.name for unit in TABLE for symbol in unit.symbols}
_BY_WORD = {word: unit.name for unit in TABLE for word in unit.words}
_FOLDED = frozenset(symbol.casefold() for symbol in _BY_SYMBOL) | _BY_WORD.keys()
_BETWEEN_WORDS = re.compile(r"[\s-]+")
_LONGEST_SPELLING = max(map(len, _FOLDED))
# What makes another word of a Chinese unit.
_NOT_BEFORE = {
    **{"年": "级代度限龄轻", "天": "然空才津", "米": "饭粉", "周": "岁年围边期刊末"},
    **{"人": "均次才工类物", "瓦": "片", "升": "级至到", "元": "素旦件", "倍": "感", "秒": "杀"},
    **{"克": "拉", "帕": "斯", "桶": "装", "州": "长", "星期": "一二三四五六日天", "千米": "饭"},
}


def _expression(spelling: str, is_word: bool) -> str:
    if not is_word:
        return re.escape(spelling)
    joined = _BETWEEN_WORDS.pattern.join(map(re.escape, spelling.split()))
    follower = _NOT_BEFORE.get(spelling)
    return f"(?i:{joined})" + (f"(?![{follower}])" if follower else "")


def _matchers() -> dict[str, re.Pattern[str]]:
    """By the first character of a spelling: one expression for all of them, the longest first."""
    spellings = [(spelling, _expression(spelling, False)) for spelling in _BY_SYMBOL]
    spellings += [(spelling, _expression(spelling, True)) for spelling in _BY_WORD]
    grouped: dict[str, list[tuple[str, str]]] = {}
    for spelling, expression in sorted(spellings, key=lambda pair: len(pair[0]), reverse=True):
        for first in {spelling[0], spelling[0].upper(), spelling[0].lower()}:
            grouped.setdefault(first, []).append((spelling, expression))
    return {
        first: re.compile(f"(?:{'|'.join(expression for _, expression in listed)})(?![0-9A-Za-z_À-ɏ²³/^])")
        for first, listed in grouped.items()
    }


_MATCHERS = _matchers()


class Found(NamedTuple):
    """A unit by its name, where its spelling ends, and whether the text may go on to a longer one."""

    name: str
    end: int
    open: bool


def find(text: str, start: int, end: int) -> Found | None:
    """The unit that ``text`` spells from ``start`` and before ``end``."""
    matcher = _MATCHERS.get(text[start : start + 1])
    match = matcher.match(text, start, end) if matcher else None
    if match is None:
        return None
    return Found(named(match.group()), match.end(), may_grow(text[start : start + _LONGEST_SPELLING + 1]))


def comparable(unit: str, other: str) -> bool:
    """Whether the two measure the same dimension."""
    return UNITS[unit].dimension == UNITS[other].dimension


def convert(value: Fraction, unit: str, target: str) -> Fraction:
    """``value`` in ``target``, exactly; the two must be comparable."""
    source, wanted = UNITS[unit], UNITS[target]
    assert source.dimension == wanted.dimension
    return (value + source.offset) * source.factor / wanted.factor - wanted.offset


def named(spelling: str) -> str:
    """The unit that ``spelling``, as ``find`` matches it, stands for."""
    return _BY_SYMBOL.get(spelling) or _BY_WORD[_fold(spelling)]


def beginnings(spellings: Iterable[str]) -> frozenset[str]:
    """What a folded spelling may look like before it is whole: "m", "mi" and "mil" for "mile"."""
    return frozenset(spelling[:length] for spelling in spellings for length in range(len(spelling)))


_BEGINNINGS = beginnings(_FOLDED)


def may_grow(tail: str) -> bool:
    """Whether ``tail``, what a text ends with, is the beginning of a longer spelling: "m" of "miles"."""
    return len(tail) <= _LONGEST_SPELLING and _fold(tail) in _BEGINNINGS


def _fold(spelling: str) -> str:
    return _BETWEEN_WORDS.sub(" ", spelling).casefold()
