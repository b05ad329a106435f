"""Dates as Chinese writes them: 2024年3月14日, 二〇二四年三月, 3月14日, 2024年第三季度, 2024年."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fact_check_service import chinese
from fact_check_service.calendar_days import one_day, part_of_year, whole_month, whole_year
from fact_check_service.claims import Claim, Kind, Value, YearlyDay
from fact_check_service.sentences import Span

_YEAR_DIGITS = "〇零一二三四五六七八九"
_SMALL = r"(?:[0-9]{1,2}|[一二三四五六七八九十]{1,3})"
_DATE = re.compile(
    rf"(?<![0-9{_YEAR_DIGITS}第])(?P<year>(?:1[0-9]|20|21)[0-9]{{2}}|[一二][{_YEAR_DIGITS}]{{3}})\s?年(?![代级])"
    rf"(?:\s?(?:(?P<month>{_SMALL})\s?月(?!球)份?(?:\s?(?P<day>{_SMALL})\s?[日号])?+"
    r"|第?(?P<quarter>[一二三四1-4])季度|(?P<half>[上下])半年))?+"
    rf"|(?<![0-9十第])(?P<yearly_month>{_SMALL})\s?月\s?(?P<yearly_day>{_SMALL})\s?[日号]"
)
_MARK = re.compile("[年月]")
_AFTER_YEAR = re.compile(
    r"\s?(?:[0-9一二三四五六七八九十]{0,3}\s?|第[一二三四1-4]?季?|[一二三四1-4]季|[上下]半?)"
)
_AFTER_MONTH = re.compile(r"\s?[0-9一二三四五六七八九十]{0,3}\s?")
# More than any date goes on for.
_FAR_ENOUGH = 32
_BEFORE = re.compile(r"(?:截至|截止|自从?|从|到|至|早于|晚于)\s?$")
_BEHIND = re.compile(r"\s?(?:之?[前后]|以[前后来]|起|至今)")


def dates(text: str, sentence: Span) -> Iterator[Claim]:
    """A date that could still go on at the end of the text is left out."""
    if not _MARK.search(text, *sentence):
        return
    for match in _DATE.finditer(text, *sentence):
        if not _may_go_on(match, text[match.end() : match.end() + _FAR_ENOUGH]):
            before = text[max(sentence.start, match.start() - 4) : match.start()]
            behind = _BEHIND.match(text, match.end(), sentence.end)
            hedged = behind is not None or _BEFORE.search(before) is not None
            yield Claim(Kind.DATE, _value(match), "", Span(*match.span()), sentence, hedged)


def _may_go_on(match: re.Match[str], rest: str) -> bool:
    if match["yearly_day"] or match["day"] or match["quarter"] or match["half"]:
        return False
    return (_AFTER_MONTH if match["month"] else _AFTER_YEAR).fullmatch(rest) is not None


def _value(match: re.Match[str]) -> Value | None:
    if match["yearly_day"]:
        month, day = _small(match["yearly_month"]), _small(match["yearly_day"])
        return YearlyDay(month, day) if one_day(2000, month, day) else None
    year = int(chinese.digits_of(match["year"]))
    if match["day"]:
        return one_day(year, _small(match["month"]), _small(match["day"]))
    if match["month"]:
        month = _small(match["month"])
        return whole_month(year, month) if 1 <= month <= 12 else None
    if match["quarter"]:
        return part_of_year(year, _small(match["quarter"]), 3)
    if match["half"]:
        return part_of_year(year, "上下".index(match["half"]) + 1, 6)
    return whole_year(year)


def _small(numeral: str) -> int:
    """0, which no calendar has, for what is no number."""
    number = chinese.parse(numeral)
    return int(number.value()) if number else 0
