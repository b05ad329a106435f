"""Dates with an explicit shape, in English and with digits: 2024-02-30, July 20, 1969, 3/14/2024, Q3 2024."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from functools import lru_cache

from dateutil import parser

from fact_check_service import chinese_dates
from fact_check_service.calendar_days import (
    EARLIEST_YEAR,
    LATEST_YEAR,
    one_day,
    part_of_year,
    whole_month,
    whole_year,
)
from fact_check_service.claims import Claim, Kind, Period, Value, YearlyDay
from fact_check_service.sentences import Span

_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?)"
)
_YEAR = r"[0-9]{4}(?![0-9])"
_DAY = r"[0-9]{1,2}(?:st|nd|rd|th)?(?![0-9])"
_ALONE = r"(?<![\w.,/-])"
_NOT_ON = r"(?![\w/-]|\.[0-9])"
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4}

# What a date begins with is searched for first: these searches skip text, those for whole dates would not.
_BEGINNINGS = tuple(
    map(
        re.compile,
        ("[0-9]+", "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)", "[QH][1-4]", "(?:quarter|half)"),
    )
)
_SHAPES = tuple(
    map(
        re.compile,
        (
            r"(?<![\w./-])(?P<iso>[0-9]{4}-[0-9]{2}-[0-9]{2})(?![0-9-])"
            rf"|{_ALONE}(?P<year_first>[0-9]{{4}}(?P<mark>[/.])[0-9]{{1,2}}(?P=mark)[0-9]{{1,2}}){_NOT_ON}"
            rf"|{_ALONE}(?P<year_last>[0-9]{{1,2}}(?P<point>[/.])[0-9]{{1,2}}(?P=point)[0-9]{{4}}){_NOT_ON}"
            rf"|{_ALONE}(?P<named>{_DAY}(?:\sof)?\s{_MONTH},?\s{_YEAR})"
            rf"|{_ALONE}(?P<yearless>{_DAY}(?:\sof)?\s{_MONTH})(?![\w-])"
            rf"|{_ALONE}(?P<part>[0-9]{{4}}[ -]?[QH][1-4])(?![\w-])"
            r"|(?<=\s)(?P<year>[0-9]{4})(?![\w'’%/-]|[.,:][0-9]|\s?[-–]|\s(?:million|billion|people|km|m)\b)",
            rf"\b(?P<named>{_MONTH}\s{_DAY},?\s{_YEAR}|{_MONTH},?\s{_YEAR})"
            rf"|\b(?P<yearless>{_MONTH}\s{_DAY})(?![\w/-]|[.,][0-9]|\s?[-–])",
            r"\b(?P<part>[QH][1-4](?:\s|\sof\s|-)?[0-9]{4})(?![\w-])",
            r"(?P<part>(?:quarter|half)(?:\sof|,)?(?:\sthe\syear)?\s[0-9]{4})(?![\w-])",
        ),
    )
)
_YEAR_LEAD = re.compile(
    r"\b(?:in|since|by|during|of|until|till|before|after|from|the year|early|late|mid|through"
    r"|(?P<span>for)) $",
    re.IGNORECASE,
)
# "For 2024" names a year, "for 2024 tickets" does not.
_CLAUSE_MAY_END = re.compile(
    r"[.,;:!?)]|\s(?:and|but|is|was|are|were|at|to|by|from|as|in|with|while|of)\b|\s*$"
)
_ORDINAL_LEAD = re.compile(rf"\b(?P<ordinal>{'|'.join(_ORDINALS)})[\s-]$", re.IGNORECASE)
_LONGEST_LEAD = 16
# More than any date goes on for.
_FAR_ENOUGH = 32
_WRITTEN_NUMBER = re.compile(r"[0-9]+")
_NOISE = re.compile(r"(?<=[0-9])(?:st|nd|rd|th)|\sof\b")
_YEAR_MAY_FOLLOW = re.compile(r",?\s?[0-9]{0,3}")
_YEAR_MAY_GO_ON = re.compile(r"[-–/:]?|\s[-–\w]?\w{0,7}")
_HEDGE = re.compile(
    r"\b(?:before|after|since|until|till|by|from|between|through|(?:later|earlier|other) than|prior to)\s+$",
    re.IGNORECASE,
)
# A leap year, so that February 29 can be read.
_DEFAULT = datetime.datetime(2000, 1, 1)


def dates(text: str, sentence: Span) -> Iterator[Claim]:
    """A date that could still go on at the end of the text is left out."""
    end = sentence.start
    for match in sorted(_matches(text, sentence), key=re.Match.start):
        claim = _claim(text, sentence, match)
        if claim and claim.span.start >= end:
            end = claim.span.end
            yield claim
    yield from chinese_dates.dates(text, sentence)


def _matches(text: str, sentence: Span) -> Iterator[re.Match[str]]:
    for beginning, shape in zip(_BEGINNINGS, _SHAPES, strict=True):
        for begun in beginning.finditer(text, *sentence):
            match = shape.match(text, begun.start(), sentence.end)
            if match:
                yield match


def _claim(text: str, sentence: Span, match: re.Match[str]) -> Claim | None:
    shape = match.lastgroup or ""
    if _may_go_on(shape, text[match.end() : match.end() + _FAR_ENOUGH]):
        return None
    before = text[max(sentence.start, match.start() - _LONGEST_LEAD) : match.start()]
    if shape == "year":
        return _year(match, before, sentence)
    hedged = _HEDGE.search(before) is not None
    if shape in {"year_first", "year_last"}:
        return _numeric(match, hedged, sentence)
    if shape == "part":
        return _part_of_year(match, before, hedged, sentence)
    return Claim(Kind.DATE, _value(match.group(), shape), "", Span(*match.span()), sentence, hedged)


def _may_go_on(shape: str, rest: str) -> bool:
    if shape == "yearless":
        return _YEAR_MAY_FOLLOW.fullmatch(rest) is not None
    if shape == "year":
        return _YEAR_MAY_GO_ON.fullmatch(rest) is not None
    return shape == "year_first" and not rest


def _year(match: re.Match[str], before: str, sentence: Span) -> Claim | None:
    """A year says so by the word before it: "in 1969"."""
    year = int(match["year"])
    lead = _YEAR_LEAD.search(before)
    if not EARLIEST_YEAR <= year <= LATEST_YEAR or lead is None:
        return None
    if lead["span"] and not _CLAUSE_MAY_END.match(match.string, match.end()):
        return None
    hedged = _HEDGE.search(before) is not None
    return Claim(Kind.DATE, whole_year(year), "", Span(*match.span()), sentence, hedged)


# The tail of the text is read again with every block.
@lru_cache(maxsize=4096)
def _value(written: str, shape: str) -> Value | None:
    """The days that a date names; None when the calendar has no such date."""
    try:
        parsed = _parsed(written, shape)
    except (ValueError, OverflowError):
        return None
    if shape == "yearless":
        return YearlyDay(parsed.month, parsed.day)
    numbers = [int(digits) for digits in _WRITTEN_NUMBER.findall(written)]
    if parsed.year not in numbers:  # the parser reads the year 0000 as 2000
        return None
    day = parsed.date()
    return Period(day, day) if len(numbers) > 1 else whole_month(day.year, day.month)


def _parsed(written: str, shape: str) -> datetime.datetime:
    # The lenient parser would read the month 13 as a day.
    if shape == "iso":
        return parser.isoparse(written)
    return parser.parse(_NOISE.sub("", written), default=_DEFAULT)


def _numeric(match: re.Match[str], hedged: bool, sentence: Span) -> Claim | None:
    """3/14/2024 and 14.03.2024. Which number of 3/4/2024 is the month nobody can tell, so it is hedged;
    numbers that fit no calendar are something else."""
    numbers = [int(digits) for digits in _WRITTEN_NUMBER.findall(match.group())]
    if match["year_first"]:
        year, month, day = numbers
    else:
        month, day, year = numbers
        if match["point"] == "." or month > 12:
            month, day = day, month
        elif day <= 12 and day != month:
            hedged = True
    if not (1 <= month <= 12 and 1 <= day <= 31 and EARLIEST_YEAR <= year <= LATEST_YEAR):
        return None
    return Claim(Kind.DATE, one_day(year, month, day), "", Span(*match.span()), sentence, hedged)


def _part_of_year(match: re.Match[str], before: str, hedged: bool, sentence: Span) -> Claim | None:
    """Q3 2024, H1 2024, the third quarter of 2024."""
    written, span = match["part"], Span(*match.span())
    *number, year = sorted(int(digits) for digits in _WRITTEN_NUMBER.findall(written))
    if not number:
        ordinal = _ORDINAL_LEAD.search(before)
        if ordinal is None:
            return None
        number = [_ORDINALS[ordinal["ordinal"].lower()]]
        span = Span(span.start - len(ordinal.group()), span.end)
    period = part_of_year(year, number[0], 3 if "Q" in written or "quarter" in written else 6)
    in_calendar = EARLIEST_YEAR <= year <= LATEST_YEAR and period is not None
    return Claim(Kind.DATE, period, "", span, sentence, hedged) if in_calendar else None
