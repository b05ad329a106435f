"""A fact, and its value as a claim that others can be compared with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from fact_check_service import units
from fact_check_service.calendar_days import one_day, whole_month, whole_year
from fact_check_service.claims import Claim, Kind, Period
from fact_check_service.sentences import Span
from fact_check_service.stated import Statement
from fact_check_service.subjects import words

DATE = "date"
"""The unit of a value that is a day, a month or a year."""

COUNT = "count"
_NOWHERE = Span(0, 0)
_NUMBER = re.compile(r"-?[0-9]{1,30}(?:\.(?P<decimals>[0-9]{1,30}))?")
_DATE = re.compile(r"(?P<year>[0-9]{4})(?:-(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2}))?)?")
_SEPARATOR = "|"
# What a property is called beside what it is: a birth has a date, whether or not a text says the word.
_SAYING_NOTHING = words("date day time number", Span(0, 20))


@dataclass(frozen=True, slots=True)
class Fact:
    """``property`` may have several names, separated by ``|``, as for the words of another language."""

    subject: str
    property: str
    value: str
    unit: str
    source: str

    def statement(self) -> Statement:
        written = " ".join(filter(None, (self.value, "" if self.unit in (COUNT, DATE) else self.unit)))
        name = self.property.split(_SEPARATOR, maxsplit=1)[0].strip()
        source = f" ({self.source})" if self.source else ""
        evidence = f"{self.subject}, {name}: {written}{source}"
        return Statement(named_by(self.property), claim(self.value, self.unit), evidence)


def named_by(names: str) -> tuple[frozenset[str], ...]:
    """Raises ValueError when a name has no word that tells anything."""
    ways = tuple(words(name, Span(0, len(name))) for name in names.split(_SEPARATOR))
    telling = tuple((way - _SAYING_NOTHING) or way for way in ways)
    if not all(telling):
        raise ValueError("has no word that names a property")
    return telling


def unit_named(written: str) -> str:
    """The unit by its name, symbol or word; things are counted where there is none.

    Raises:
        ValueError: for one that is not known.
    """
    if not written:
        return COUNT
    if written == DATE or written in units.UNITS:
        return written
    found = units.find(written, 0, len(written))
    if found is None or found.end != len(written):
        raise ValueError(f"unknown unit {written!r}")
    return found.name


def claim(value: str, unit: str) -> Claim:
    """Raises ValueError when ``value`` is no number, or no date where ``unit`` says so."""
    if unit == DATE:
        return dated(_period(value))
    found = _NUMBER.fullmatch(value)
    if found is None:
        raise ValueError(f"{value!r} is no number such as 8849 or 0.25")
    return measured(Fraction(value), unit, Fraction(1, 10 ** len(found["decimals"] or "")))


def dated(period: Period) -> Claim:
    return Claim(Kind.DATE, period, "", _NOWHERE, _NOWHERE)


def measured(number: Fraction, unit: str, step: Fraction, approximate: bool = False) -> Claim:
    return Claim(Kind.QUANTITY, number, unit, _NOWHERE, _NOWHERE, approximate=approximate, step=step)


def _period(value: str) -> Period:
    found = _DATE.fullmatch(value)
    try:
        period = _days(*(int(part) for part in found.groups() if part)) if found else None
    except ValueError:
        period = None
    if period is None:
        raise ValueError(f"{value!r} is no date such as 1969-07-20, 1969-07 or 1969")
    return period


def _days(year: int, month: int = 0, day: int = 0) -> Period | None:
    if day:
        return one_day(year, month, day)
    return whole_month(year, month) if month else whole_year(year)
