"""Dates with an explicit shape, in English and with digits: 2024-02-30, July 20, 1969, 3/14/2024, Q3 2024."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

from dateutil import parser

from fact_check_service import chinese_dates
from fact_check_service.calendar_days import one_day, part_of_year, whole_month, whole_year
from fact_check_service.claims import Claim, Kind, Period, Value, YearlyDay
from fact_check_service.sentences import Span

_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?)"
)
_YEAR = r"[0-9]{4}(?![0-9])"
_DAY = r"[0-9]{1,2}(?:st|nd|rd|th)?(?![0-9])"
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4}
_PART = r"(?:quarter|half)(?:\sof|,)?(?:\sthe\syear)?"
_DATE = re.compile(
    r"(?<![\w./-])(?P<iso>[0-9]{4}-[0-9]{2}-[0-9]{2})(?![0-9-])"
    r"|(?<![\w.,/-])(?P<numeric>[0-9]{4}(?P<first_mark>[/.])[0-9]{1,2}(?P=first_mark)[0-9]{1,2}"
    r"|[0-9]{1,2}(?P<last_mark>[/.])[0-9]{1,2}(?P=last_mark)[0-9]{4})(?![\w/-]|\.[0-9])"
    rf"|(?<![\w.,/-])(?P<named>{_DAY}(?:\sof)?\s{_MONTH},?\s{_YEAR})"
    rf"|\b(?P<month_first>{_MONTH}\s{_DAY},?\s{_YEAR}|{_MONTH},?\s{_YEAR})"
    rf"|\b(?P<yearless>{_MONTH}\s{_DAY})(?![\w/-]|[.,][0-9]|\s?[-–])"
    rf"|(?<![\w.,/-])(?P<yearless_day_first>{_DAY}(?:\sof)?\s{_MONTH})(?![\w-])"
    r"|\b(?P<part>[QH][1-4](?:\s|\sof\s|-)?[0-9]{4}|[0-9]{4}[ -]?[QH][1-4]"
    rf"|(?i:{'|'.join(_ORDINALS)})[\s-]{_PART}\s[0-9]{{4}})(?![\w-])"
    r"|\b(?i:in|since|by|during|of|until|till|before|after|from|the\syear|early|late|mid)[\s-]"
    r"(?P<year>1[0-9]{3}|20[0-9]{2})(?![0-9'’%s]|[.,:/-][0-9]|\s?[-–]|\s(?:"
    + "million|billion|people|times|km|m"
    + r")\b)"
)
_WRITTEN_NUMBER = re.compile(r"[0-9]+")
_NOISE = re.compile(r"(?<=[0-9])(?:st|nd|rd|th)|\sof\b")
_YEAR_MAY_FOLLOW = re.compile(r",?\s?[0-9]{0,3}")
_YEAR_MAY_GO_ON = re.compile(r"[-–/.,:]?|\s[-–\w]?[\w]{0,7}")
_HEDGE = re.compile(
    r"\b(?:before|after|since|until|till|by|from|between|through|(?:later|earlier|other) than|prior to)\s+$",
    re.IGNORECASE,
)
_LONGEST_HEDGE = 16
# Any leap year, so that February 29 can be read.
_DEFAULT = datetime.datetime(2000, 1, 1)


def dates(text: str, sentence: Span) -> Iterator[Claim]:
    """A date that could still go on at the end of the text is left out."""
    for match in _DATE.finditer(text, *sentence):
        span = Span(*match.span(match.lastgroup or 0))
        if not _may_go_on(match, text[span.end :]):
            yield from _claim(text, sentence, match, span)
    yield from chinese_dates.dates(text, sentence)


def _may_go_on(match: re.Match[str], rest: str) -> bool:
    if match["yearless"] or match["yearless_day_first"]:
        return _YEAR_MAY_FOLLOW.fullmatch(rest) is not None
    if match["year"]:
        return _YEAR_MAY_GO_ON.fullmatch(rest) is not None
    return bool(match["numeric"] and match["first_mark"] and not rest)


def _claim(text: str, sentence: Span, match: re.Match[str], span: Span) -> Iterator[Claim]:
    before = text[max(sentence.start, span.start - _LONGEST_HEDGE) : span.start]
    hedged = _HEDGE.search(before) is not None
    if match["numeric"]:
        yield from _numeric(match, span, sentence, hedged)
    else:
        yield Claim(Kind.DATE, _value(match), "", span, sentence, hedged)


def _value(match: re.Match[str]) -> Value | None:
    """The days that a date names; None when the calendar has no such date."""
    if match["part"]:
        return _part_of_year(match["part"])
    if match["year"]:
        return whole_year(int(match["year"]))
    try:
        day = _parsed(match).date()
    except (ValueError, OverflowError):
        return None
    if match["yearless"] or match["yearless_day_first"]:
        return YearlyDay(day.month, day.day)
    numbers = [int(digits) for digits in _WRITTEN_NUMBER.findall(match.group())]
    if day.year not in numbers:  # the parser reads the year 0000 as 2000
        return None
    return Period(day, day) if len(numbers) > 1 else whole_month(day.year, day.month)


def _parsed(match: re.Match[str]) -> datetime.datetime:
    # The lenient parser would read the month 13 as a day.
    if match["iso"]:
        return parser.isoparse(match["iso"])
    written = match["named"] or match["month_first"] or match["yearless"] or match["yearless_day_first"]
    return parser.parse(_NOISE.sub("", written), default=_DEFAULT)


def _numeric(match: re.Match[str], span: Span, sentence: Span, hedged: bool) -> Iterator[Claim]:
    """3/14/2024 and 14.03.2024. Which of two small numbers is the month of 3/4/2024 nobody can tell, so it
    is hedged; numbers that fit no calendar are something else."""
    numbers = [int(digits) for digits in re.split("[/.]", match["numeric"])]
    if match["first_mark"]:
        year, month, day = numbers
    else:
        month, day, year = numbers
        if match["last_mark"] == "." or month > 12:
            month, day = day, month
        elif day <= 12 and day != month:
            hedged = True
    if 1 <= month <= 12 and 1 <= day <= 31 and 1000 <= year < 2200:
        yield Claim(Kind.DATE, one_day(year, month, day), "", span, sentence, hedged)


def _part_of_year(written: str) -> Period | None:
    numbers = [int(digits) for digits in _WRITTEN_NUMBER.findall(written)]
    first_word = re.split(r"[\s-]", written.lower())[0]
    number = _ORDINALS.get(first_word) or min(numbers)
    length = 3 if "Q" in written or "quarter" in written.lower() else 6
    return part_of_year(max(numbers), number, length)
