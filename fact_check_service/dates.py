"""Dates with an explicit shape: 2024-02-30, July 20, 1969, 20 July 1969, July 1969."""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Iterator

from dateutil import parser

from fact_check_service.claims import Claim, Kind, Period
from fact_check_service.sentences import Span

_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?)"
)
_YEAR = r"[0-9]{4}(?![0-9])"
_DAY = r"[0-9]{1,2}(?:st|nd|rd|th)?"
_DATE = re.compile(
    r"(?<![\w./-])(?P<iso>[0-9]{4}-[0-9]{2}-[0-9]{2})(?![0-9-])"
    rf"|(?<![\w.,/-]){_DAY}(?:\sof)?\s{_MONTH},?\s{_YEAR}"
    rf"|\b{_MONTH}\s{_DAY},?\s{_YEAR}"
    rf"|\b{_MONTH},?\s{_YEAR}"
)
_WRITTEN_NUMBER = re.compile(r"[0-9]+")
_NOISE = re.compile(r"(?<=[0-9])(?:st|nd|rd|th)|\sof\b")
_HEDGE = re.compile(
    r"\b(?:before|after|since|until|till|by|from|between|through|(?:later|earlier|other) than|prior to)\s+$",
    re.IGNORECASE,
)
_LONGEST_HEDGE = 16
_DEFAULT = datetime.datetime(2000, 1, 1)


def dates(text: str, sentence: Span) -> Iterator[Claim]:
    """Every shape ends in a number of fixed length, so a date that matches has stopped growing."""
    for match in _DATE.finditer(text, *sentence):
        before = text[max(sentence.start, match.start() - _LONGEST_HEDGE) : match.start()]
        hedged = _HEDGE.search(before) is not None
        yield Claim(Kind.DATE, _period(match), "", Span(*match.span()), sentence, hedged)


def _period(match: re.Match[str]) -> Period | None:
    """The days that a date names; None when the calendar has no such date."""
    try:
        day = _parsed(match).date()
    except (ValueError, OverflowError):
        return None
    numbers = [int(digits) for digits in _WRITTEN_NUMBER.findall(match.group())]
    if day.year not in numbers:  # the parser reads the year 0000 as 2000
        return None
    if len(numbers) > 1:
        return Period(day, day)
    return Period(day, day.replace(day=calendar.monthrange(day.year, day.month)[1]))


def _parsed(match: re.Match[str]) -> datetime.datetime:
    # The lenient parser would read the month 13 as a day.
    if match["iso"]:
        return parser.isoparse(match["iso"])
    return parser.parse(_NOISE.sub("", match.group()), default=_DEFAULT)
