"""Quantities: a number or a range of numbers with its unit, an amount of money, a count of things."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest

from fact_check_service import chinese, units
from fact_check_service.chinese import Number
from fact_check_service.claims import Claim, Kind, Range
from fact_check_service.numerals import CURRENCIES, GAP, LETTER, Numeral, hedges, numerals
from fact_check_service.sentences import Span

_TO_UNIT = re.compile(rf"[余多来]?{GAP}(?:个(?!月)\s?)?")
_IDEOGRAPH = re.compile(r"[\u4e00-\u9fff]")
_BELOW_ZERO = re.compile(r"(?:零下|负|\bminus\s|\bnegative\s)$", re.IGNORECASE)
_PER_HUNDRED = "百分之"
# 三成 is 30 percent, 三成五 35.
_TENTHS = re.compile(
    r"成(?![为立员本功长绩果就型交熟都人年套语品份])(?:(?P<half>[一二三四五六七八九半])(?![十百千万亿个成]))?+"
)
_TO = re.compile(r"\s?[-–—~～]\s?|\s?[至到]\s?|\sto\s|(?P<both>\sand\s|\s?[和与]\s?)")
_BETWEEN = re.compile(r"(?:\bbetween|介于|在)\s?$", re.IGNORECASE)
_FROM = re.compile(r"\bfrom\s?$", re.IGNORECASE)
_RANGING = re.compile(
    r"\b(?:rang(?:e|es|ed|ing)|var(?:y|ies|ied|ying)|anywhere)\s(?:in\s\w{1,20}\s)?from\s?$", re.IGNORECASE
)
_UNFINISHED = re.compile(
    r"(?:\s?[-–—~～至到]|\st|\sto|\sa|\san|\sand|\s?[和与])?\s?[^\s]{0,40}+(?:\s\w{0,12})?+"
)
_LONGEST_LEAD = 24

_THINGS = re.compile(
    r"\s(?:(?!and\b|or\b|of\b|in\b|to\b|by\b|on\b|at\b|for\b|from\b|with\b|is\b|was\b)[a-z][a-z-]{1,20}\s){0,2}?"
    r"(?:[a-z-]{2,20}(?<![su])s|men|women|children)\b(?<!\bhas)(?<!\bwas)(?<!\bdoes)(?<!\bits)(?<!\bbasis)(?=[^\w-])"
)
_MEASURE_WORD = re.compile(
    r"[余多来]?[ ]?(?:[个名位家座条种项层辆架艘次所台件套本部只头匹棵户支张场届枚篇起例间款场颗盏栋幢处门股]|平台)"
    r"(?!月)[\u4e00-\u9fff]"
)
_LABEL = re.compile(
    r"(?:\b[A-Z][\w.]{0,20}|\b(?:chapter|version|suite|page|section|figure|table|room|step|no)\.?|[#第])\s?$"
)
_SENTENCE_START = re.compile(r"^\W*\w+\s?$")


@dataclass(frozen=True, slots=True)
class _Measured:
    """A numeral with the unit that follows it, if any; ``open`` while a longer unit may follow."""

    numeral: Numeral
    unit: str
    span: Span
    number: Number
    open: bool


def quantities(text: str, sentence: Span) -> Iterator[Claim]:
    """As in "1,234.5 kg", "25bp", "3 × 10^8 m/s", "$4.2 billion", "3至5公里" and "two million people"."""
    measured = [_measure(text, sentence, numeral) for numeral in numerals(text, sentence)]
    last_end = sentence.start
    for this, following in zip_longest(measured, measured[1:]):
        if this is None or this.span.start < last_end:
            continue
        joined = _joined(text, sentence, this, following)
        if joined:
            last_end = joined.span.end
            yield joined
        elif this.unit and not this.open and not _range_may_follow(text, this, following):
            last_end = this.span.end
            yield _claim(text, sentence, this)


def _measure(text: str, sentence: Span, numeral: Numeral) -> _Measured:
    start, end = numeral.span
    if numeral.currency:
        unit = _currency(text, sentence, numeral.currency)
        is_open = (
            numeral.open
            or text[end : end + 1].isalnum()
            and text[end].isascii()
            or text[end : end + 1] == "%"
        )
        return _Measured(numeral, unit, numeral.span, numeral.number, is_open)
    if text.endswith(_PER_HUNDRED, sentence.start, start):
        return _Measured(
            numeral, "percent", Span(start - len(_PER_HUNDRED), end), numeral.number, end == len(text)
        )
    tenths = _TENTHS.match(text, end, sentence.end)
    if tenths and numeral.number.value <= 10:
        return _Measured(
            numeral,
            "percent",
            Span(start, tenths.end()),
            _of_tenths(numeral, tenths),
            tenths.end() == len(text),
        )
    return _with_unit(text, sentence, numeral)


def _with_unit(text: str, sentence: Span, numeral: Numeral) -> _Measured:
    start, end = numeral.span
    gap = _TO_UNIT.match(text, end, sentence.end)
    found = units.find(text, gap.end(), sentence.end) if gap else None
    found = found or units.find(text, end, sentence.end)
    if found is None:
        return _counted(text, sentence, numeral)
    if _is_year(text, numeral, found.end):
        return _Measured(numeral, "", numeral.span, numeral.number, False)
    number = numeral.number
    below = (
        _BELOW_ZERO.search(text[max(sentence.start, start - 9) : start])
        if found.name in _TEMPERATURES
        else None
    )
    if below:
        number, start = Number(-number.value, number.step), start - len(below.group())
    return _Measured(numeral, found.name, Span(start, found.end), number, found.open)


_TEMPERATURES = frozenset({"celsius", "fahrenheit", "kelvin"})


def _is_year(text: str, numeral: Numeral, end: int) -> bool:
    written = text[slice(*numeral.span)]
    return text[end - 1] == "年" and len(written) == 4 and written.isdecimal()


def _of_tenths(numeral: Numeral, tenths: re.Match[str]) -> Number:
    half = tenths["half"]
    more = Fraction(0) if half is None else Fraction(5 if half == "半" else chinese.DIGITS[half])
    return Number(numeral.number.value * 10 + more, Fraction(1 if half else 10))


def _counted(text: str, sentence: Span, numeral: Numeral) -> _Measured:
    """Counts of no known unit; what a name or a year has for a number counts nothing."""
    start, end = numeral.span
    written = text[start:end]
    things = _MEASURE_WORD.match(text, end, sentence.end) or _THINGS.match(text, end, sentence.end)
    number = numeral.number
    year_like = len(written) == 4 and written.isdecimal() and 1000 <= number.value < 2200
    if things is None or number.value <= 1 or number.value.denominator > 1 or year_like:
        return _Measured(numeral, "", numeral.span, number, False)
    before = text[max(sentence.start, start - _LONGEST_LEAD) : start]
    if _LABEL.search(before) and not _SENTENCE_START.match(text[sentence.start : start]):
        return _Measured(numeral, "", numeral.span, number, False)
    return _Measured(numeral, "count", numeral.span, number, False)


def _currency(text: str, sentence: Span, symbol: str) -> str:
    """¥ stands for yuan in a Chinese sentence."""
    if symbol == "¥" and _IDEOGRAPH.search(text, *sentence):
        return "yuan"
    return CURRENCIES[symbol]


def _joined(text: str, sentence: Span, low: _Measured, high: _Measured | None) -> Claim | None:
    """The range that two numbers with one unit make up; the unit may stand behind the second alone."""
    to = _TO.match(text, low.span.end, sentence.end)
    if to is None or high is None or to.end() != high.span.start or not high.unit or high.open:
        return None
    lead = text[max(sentence.start, low.span.start - _LONGEST_LEAD) : low.span.start]
    if (to["both"] and not _BETWEEN.search(lead)) or (_FROM.search(lead) and not _RANGING.search(lead)):
        return None
    ends = _ends(low, high)
    if ends is None or ends.low >= ends.high:
        return None
    span = Span(low.span.start, high.span.end)
    bound, around = hedges(text, sentence, span)
    return Claim(Kind.QUANTITY, ends, high.unit, span, sentence, bound, around, high.number.step)


def _ends(low: _Measured, high: _Measured) -> Range | None:
    first, last = low.number.value, high.number.value
    if low.unit and low.unit != high.unit:
        return None
    scale = high.number.step / low.number.step
    # "$5–6 million", "3到5万人": the scale behind the second is the first one's too.
    unscaled = low.numeral.number.step <= 1 < scale and last > first * scale > 0
    return Range(first * scale if unscaled and first * scale < last else first, last)


def _range_may_follow(text: str, this: _Measured, following: _Measured | None) -> bool:
    """Whether what comes behind a quantity at the end of the text may still make it a range."""
    rest = text[this.span.end :]
    if not rest or len(rest) > 60:
        return False
    to = _TO.match(rest)
    if to is None:
        return rest in {" ", " t", " to"}
    if following is not None and following.span.start == this.span.end + to.end() and following.unit:
        return following.open
    return _UNFINISHED.fullmatch(rest) is not None


def _claim(text: str, sentence: Span, measured: _Measured) -> Claim:
    bound, around = hedges(text, sentence, measured.span)
    approximate = (
        around
        or measured.numeral.approximate
        or text[measured.numeral.span.end : measured.numeral.span.end + 1] in {*"余多来"}
    )
    return Claim(
        Kind.QUANTITY,
        measured.number.value,
        measured.unit,
        measured.span,
        sentence,
        bound,
        approximate,
        measured.number.step,
    )
