"""What a number counts: the unit behind it, its currency, or the things that are counted."""

from __future__ import annotations

import re
from typing import NamedTuple

from fact_check_service import chinese, units
from fact_check_service.number import Number
from fact_check_service.numerals import CURRENCIES, Numeral
from fact_check_service.sentences import Span

_TO_UNIT = re.compile(r"[余多来]?[\s-]?(?:个(?!月)\s?)?")
_IDEOGRAPH = re.compile(r"[\u4e00-\u9fff]")
_TEMPERATURES = frozenset({"celsius", "fahrenheit", "kelvin"})
_BELOW_ZERO = re.compile(r"(?:零下|负|\bminus\s|\bnegative\s)$", re.IGNORECASE)
_LONGEST_SIGN = 9
_PER_HUNDRED = "百分之"
# 三成 is 30 percent, 三成五 35.
_TENTHS = re.compile(
    r"成(?![为立员本功长绩果就型交熟都人年套语品份])(?:(?P<rest>[一二三四五六七八九半])(?![十百千万亿个成]))?+"
)
# "A half-point cut" moves a rate by half a percentage point; other points are of something else.
_RATE_POINT = re.compile(r"[\s-]points?(?![\w])")
_SPOKEN_PARTS = frozenset({Number(5, -1), Number(25, -2), Number(75, -2)})

_THINGS = re.compile(
    r"\s(?:(?!(?:and|or|of|in|to|by|on|at|for|from|with|is|was)\b)[a-z][a-z-]{1,20}\s){0,2}?"
    r"(?:[a-z-]{2,20}(?<![su])s|men|women|children)\b"
    r"(?<!\bhas)(?<!\bwas)(?<!\bdoes)(?<!\bits)(?<!\bbasis)(?=[^\w-])"
)
_THINGS_IN_CHINESE = re.compile(
    r"[余多来]?[ ]?(?:(?:平台"
    r"|[个名位家座条种项层辆架艘次所台件套本部只头匹棵户支张场届枚篇起例间款颗盏栋幢处门股])"
    r"(?!月)[^\s]|(?:用户|居民|员工|学生|游客|家庭|农民|平台|册|株|辆|架)[^\s])"
)
_LABEL = re.compile(
    r"(?:\b[A-Z][\w.]{0,20}|\b(?:chapter|version|suite|page|section|figure|table|room|step|no)\.?|[#第])\s?$"
)
_SENTENCE_START = re.compile(r"\W*\w+\s?")
_LONGEST_LABEL = 24
_AMOUNT_GOES_ON = re.compile(r"[0-9A-Za-z%]")


class Measured(NamedTuple):
    """A number with its unit, "" for none; ``open`` while the text may go on to a longer unit or number."""

    numeral: Numeral
    unit: str
    span: Span
    number: Number
    open: bool = False


def measure(text: str, sentence: Span, numeral: Numeral) -> Measured:
    start, end = numeral.span
    if numeral.currency:
        goes_on = numeral.open or _AMOUNT_GOES_ON.match(text, end) is not None
        return Measured(numeral, _currency(text, sentence, numeral), numeral.span, numeral.number, goes_on)
    if text.endswith(_PER_HUNDRED, sentence.start, start):
        span = Span(start - len(_PER_HUNDRED), end)
        return Measured(numeral, "percent", span, numeral.number, end == len(text))
    return _of_ten(text, sentence, numeral) or _with_unit(text, sentence, numeral)


def _currency(text: str, sentence: Span, numeral: Numeral) -> str:
    """¥ stands for yuan in a Chinese sentence."""
    if numeral.currency == "¥" and _IDEOGRAPH.search(text, *sentence):
        return "yuan"
    return CURRENCIES[numeral.currency]


def _of_ten(text: str, sentence: Span, numeral: Numeral) -> Measured | None:
    tenths = _TENTHS.match(text, numeral.span.end, sentence.end)
    if tenths is None or not 0 < numeral.number.value() <= 10:
        return None
    number, rest = numeral.number.scaled(1), tenths["rest"]
    if rest:
        number = number.plus(Number(5 if rest == "半" else chinese.DIGITS[rest], 0))
    span = Span(numeral.span.start, tenths.end())
    return Measured(numeral, "percent", span, number, span.end == len(text))


def _with_unit(text: str, sentence: Span, numeral: Numeral) -> Measured:
    start, end = numeral.span
    gap = _TO_UNIT.match(text, end, sentence.end)
    found = (gap and units.find(text, gap.end(), sentence.end)) or units.find(text, end, sentence.end)
    if not found:
        return _of_points(text, sentence, numeral) or _counted(text, sentence, numeral)
    if _is_year(text, numeral, found.end):
        return Measured(numeral, "", numeral.span, numeral.number)
    number = numeral.number
    if found.name in _TEMPERATURES:
        below = _BELOW_ZERO.search(text[max(sentence.start, start - _LONGEST_SIGN) : start])
        if below:
            number, start = number.negative(), start - len(below.group())
    return Measured(numeral, found.name, Span(start, found.end), number, found.open)


def _is_year(text: str, numeral: Numeral, end: int) -> bool:
    """2024年 and 1990s are no years and seconds that were counted."""
    return end == numeral.span.end + 1 and text[end - 1] in "年s" and _four_digits(text, numeral)


def _four_digits(text: str, numeral: Numeral) -> bool:
    written = text[slice(*numeral.span)]
    return len(written) == 4 and written.isdecimal()


def _of_points(text: str, sentence: Span, numeral: Numeral) -> Measured | None:
    point = _RATE_POINT.match(text, numeral.span.end, sentence.end)
    spelled = text[numeral.span.start].isalpha() and numeral.number in _SPOKEN_PARTS
    if point is None or not spelled:
        return None
    return Measured(numeral, "percentage_point", Span(numeral.span.start, point.end()), numeral.number)


def _counted(text: str, sentence: Span, numeral: Numeral) -> Measured:
    """Counts of no known unit. What a name, a label or a year has for a number counts nothing."""
    counts = numeral.number.digits > 0 and numeral.number.place >= 0 and numeral.number != (1, 0)
    unit = "count" if counts and _counts_things(text, sentence, numeral) else ""
    return Measured(numeral, unit, numeral.span, numeral.number)


def _counts_things(text: str, sentence: Span, numeral: Numeral) -> bool:
    start, end = numeral.span
    if _THINGS_IN_CHINESE.match(text, end, sentence.end):
        return True
    if _four_digits(text, numeral) or not _THINGS.match(text, end, sentence.end):
        return False
    before = text[max(sentence.start, start - _LONGEST_LABEL) : start]
    return not _LABEL.search(before) or _SENTENCE_START.fullmatch(text, sentence.start, start) is not None
