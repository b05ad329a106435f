"""Days and runs of days of the calendar, as claims hold them."""

from __future__ import annotations

import calendar
import datetime

from fact_check_service.claims import Period

EARLIEST_YEAR, LATEST_YEAR = 1000, 2199


def one_day(year: int, month: int, day: int) -> Period | None:
    """None when the calendar has no such day."""
    try:
        date = datetime.date(year, month, day)
    except ValueError:
        return None
    return Period(date, date)


def whole_month(year: int, month: int) -> Period:
    return months(year, month, 1)


def whole_year(year: int) -> Period:
    return months(year, 1, 12)


def part_of_year(year: int, number: int, length: int) -> Period | None:
    """The ``number``-th stretch of ``length`` months; None for a third half."""
    first = (number - 1) * length + 1
    return months(year, first, length) if 1 <= first <= 13 - length else None


def months(year: int, month: int, count: int) -> Period:
    """``count`` months of one year from ``month``."""
    last = month + count - 1
    last_day = calendar.monthrange(year, last)[1]
    return Period(datetime.date(year, month, 1), datetime.date(year, last, last_day))
