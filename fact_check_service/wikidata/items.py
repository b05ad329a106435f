"""Items as statements: ranks, units and the precision of times."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fact_check_service.calendar_days import one_day, whole_month, whole_year
from fact_check_service.claims import Claim, Period
from fact_check_service.knowledge.facts import COUNT, DATE, dated, measured
from fact_check_service.stated import Statement
from fact_check_service.wikidata.properties import BY_ID, UNITS_BY_ITEM, Property, dimension_of

_AMOUNT = re.compile(r"[+-]?[0-9]{1,30}(?:\.(?P<decimals>[0-9]{1,30}))?")
_TIME = re.compile(r"\+(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})T[0-9:]{8}Z")
_CENTURY, _DECADE, _YEAR, _MONTH, _DAY = 7, 8, 9, 10, 11
_JULIAN = "Q1985786"
_CALENDARS_APART = datetime.timedelta(days=13)
_RANKS = ("preferred", "normal")


@dataclass(frozen=True, slots=True)
class Item:
    """``values`` are those of the best rank by property, as the API writes them; all of it can be JSON."""

    id: str
    label: str
    values: Mapping[str, Sequence[Mapping[str, Any]]]

    def statements(self) -> tuple[Statement, ...]:
        return tuple(
            Statement(BY_ID[number].named_by, claim, self._evidence(BY_ID[number], written))
            for number, values in self.values.items()
            for claim, written in _claims(BY_ID[number], values)
        )

    def _evidence(self, listed: Property, written: str) -> str:
        return f"{self.label}, {listed.name}: {written} (Wikidata {self.id}, {listed.id})"


def item(number: str, entity: Mapping[str, Any], language: str) -> Item:
    """What the API answered of an item; what is not as documented is left out."""
    label = _at(entity, "labels", language, "value")
    claims = entity.get("claims")
    listed = claims if isinstance(claims, dict) else {}
    values = {number: best for number in BY_ID if (best := list(_best(listed.get(number))))}
    return Item(number, label if isinstance(label, str) else number, values)


def _best(statements: object) -> Iterator[Mapping[str, Any]]:
    """Values of the highest rank that has any; what is deprecated never counts."""
    listed = [one for one in statements if isinstance(one, dict)] if isinstance(statements, list) else []
    ranks = [rank for rank in _RANKS if any(one.get("rank") == rank for one in listed)]
    for one in listed:
        value = _at(one, "mainsnak", "datavalue", "value")
        if ranks and one.get("rank") == ranks[0] and isinstance(value, dict):
            yield value


def _at(found: Any, *path: str) -> Any:
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _claims(listed: Property, values: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Claim, str]]:
    for value in values:
        read = _time(value) if listed.dimension == DATE else _quantity(listed, value)
        if read is not None:
            yield read


def _quantity(listed: Property, value: Mapping[str, Any]) -> tuple[Claim, str] | None:
    unit = UNITS_BY_ITEM.get(str(value.get("unit")).rsplit("/", 1)[-1])
    found = _AMOUNT.fullmatch(str(value.get("amount")))
    if unit is None or found is None or dimension_of(unit) != listed.dimension:
        return None
    step = max(Fraction(1, 10 ** len(found["decimals"] or "")), _uncertainty(value))
    amount = found.group().removeprefix("+")
    written = amount if unit == COUNT else f"{amount} {unit}"
    return measured(Fraction(amount), unit, step, listed.varies), written


def _uncertainty(value: Mapping[str, Any]) -> Fraction:
    """How far the bounds are apart, where they are told."""
    bounds = [_AMOUNT.fullmatch(str(value.get(name))) for name in ("lowerBound", "upperBound")]
    low, high = (Fraction(bound.group()) if bound else None for bound in bounds)
    return abs(high - low) if low is not None and high is not None else Fraction(0)


def _time(value: Mapping[str, Any]) -> tuple[Claim, str] | None:
    found = _TIME.fullmatch(str(value.get("time")))
    if found is None:
        return None
    year, month, day = (int(part) for part in found.groups())
    precision = value.get("precision")
    with suppress(ValueError, OverflowError):
        period = _period(year, month, day, precision)
        if period:
            julian = str(value.get("calendarmodel")).endswith(f"/{_JULIAN}")
            last = period.last + _CALENDARS_APART if julian else period.last
            return dated(Period(period.first, last)), _written(found, precision)
    return None


def _written(found: re.Match[str], precision: object) -> str:
    """No more of the time than is known."""
    parts = {_YEAR: 1, _MONTH: 2, _DAY: 3}.get(precision if isinstance(precision, int) else 0, 1)
    around = {_DECADE: " (decade)", _CENTURY: " (century)"}.get(
        precision if isinstance(precision, int) else 0, ""
    )
    return "-".join(found.groups()[:parts]) + around


def _period(year: int, month: int, day: int, precision: object) -> Period | None:
    """Raises ValueError where the calendar has no such days."""
    if precision == _DAY:
        return one_day(year, month, day)
    if precision == _MONTH:
        return whole_month(year, month)
    if precision == _YEAR:
        return whole_year(year)
    if precision == _DECADE:
        return _years(year - year % 10, year - year % 10 + 9)
    if precision == _CENTURY:
        first = year - (year - 1) % 100
        return _years(first, first + 99)
    return None


def _years(first: int, last: int) -> Period:
    return Period(whole_year(first).first, whole_year(last).last)
