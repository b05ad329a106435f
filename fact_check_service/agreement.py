"""Whether two claims about one subject can both be true."""

from __future__ import annotations

import datetime
from fractions import Fraction

from fact_check_service import units
from fact_check_service.claims import Claim, Kind, Period, Range, YearlyDay

_ABOUT = Fraction(5, 100)
_CONVERTED = Fraction(1, 100)
_ROUND = Fraction(1, 100)
_FAR = Fraction(20, 100)
_MANY_ZEROS = 1000


def comparable(draft: Claim, source: Claim) -> bool:
    if draft.kind is not source.kind or draft.value is None or source.value is None:
        return False
    return draft.kind is not Kind.QUANTITY or units.comparable(draft.unit, source.unit)


def agree(
    draft: Claim, source: Claim, *, one_bound: bool = False, least: bool = False, most: bool = False
) -> bool | None:
    """None where nobody can tell: a bound against a value, a rounder number than the other.

    The two must be comparable; ``one_bound`` when the same words make both a bound, or neither;
    ``least`` and ``most`` when the draft says that the true number is no less, or no more, than its own.
    """
    if _beyond(draft, source, least=least, most=most):
        return False
    if (draft.hedged or source.hedged) and not (draft.hedged and source.hedged and one_bound):
        return None
    if draft.kind is Kind.DATE:
        return _same_days(draft.value, source.value)
    value = _converted(source, draft.unit)
    if draft.hedged:
        return _same_bound(draft.value, value)
    if isinstance(draft.value, Range) or isinstance(value, Range):
        return _same_range(draft.value, value)
    assert isinstance(draft.value, Fraction) and isinstance(value, Fraction)
    return _same_number(draft, source, draft.value, value)


def _beyond(draft: Claim, source: Claim, *, least: bool, most: bool) -> bool:
    """Whether the draft's bound leaves out what the source states."""
    if source.hedged or not (least or most):
        return False
    (stated_low, stated_high), (low, high) = _ends(_converted(source, draft.unit)), _ends(draft.value)
    slack = _ABOUT if source.approximate else _CONVERTED
    too_low = stated_high + abs(stated_high) * slack < low
    too_high = stated_low - abs(stated_low) * slack > high
    return (least and too_low) or (most and too_high)


def _same_bound(draft: object, source: Fraction | Range) -> bool | None:
    """A looser bound than the other, "over 3,500" for "over 3,800", is none the less true."""
    (low, _), (stated, _) = _ends(draft), _ends(source)
    if draft == source:
        return True
    return False if abs(low - stated) > abs(stated) * _FAR else None


def _converted(source: Claim, unit: str) -> Fraction | Range:
    if source.unit == unit:
        assert isinstance(source.value, Fraction | Range)
        return source.value
    if isinstance(source.value, Range):
        return Range(
            units.convert(source.value.low, source.unit, unit),
            units.convert(source.value.high, source.unit, unit),
        )
    assert isinstance(source.value, Fraction)
    return units.convert(source.value, source.unit, unit)


def _same_number(draft: Claim, source: Claim, value: Fraction, stated: Fraction) -> bool | None:
    """Equal as far as the draft's digits say: 1.5 million for 1,512,300."""
    difference = abs(value - stated)
    if difference <= draft.step / 2:
        return True
    if draft.unit != source.unit and difference <= abs(stated) * _CONVERTED:
        return True
    if (draft.approximate or source.approximate) and difference <= abs(stated) * _ABOUT:
        return True
    rounded = value % _MANY_ZEROS == 0 and difference <= abs(stated) * _ROUND
    less_exact = source.unit == draft.unit and difference <= source.step / 2
    return None if rounded or less_exact else False


def _same_range(draft: object, source: object) -> bool | None:
    low, high = _ends(draft)
    source_low, source_high = _ends(source)
    if (low, high) == (source_low, source_high):
        return True
    if source_low <= low and high <= source_high:
        return True if low == high else None
    return None if low <= source_low and source_high <= high else False


def _ends(value: object) -> tuple[Fraction, Fraction]:
    if isinstance(value, Range):
        return value.low, value.high
    assert isinstance(value, Fraction)
    return value, value


def _same_days(draft: object, source: object) -> bool:
    if isinstance(draft, Period) and isinstance(source, Period):
        return draft.overlaps(source)
    if isinstance(draft, YearlyDay) and isinstance(source, YearlyDay):
        return draft == source
    yearly, period = (draft, source) if isinstance(draft, YearlyDay) else (source, draft)
    assert isinstance(yearly, YearlyDay) and isinstance(period, Period)
    return any(_on(yearly, year, period) for year in range(period.first.year, period.last.year + 1))


def _on(yearly: YearlyDay, year: int, period: Period) -> bool:
    try:
        return period.first <= datetime.date(year, yearly.month, yearly.day) <= period.last
    except ValueError:
        return False
