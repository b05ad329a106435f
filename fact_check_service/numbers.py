"""Quantities: a number or a range of numbers with its unit, an amount of money, a count of things."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import zip_longest

from fact_check_service import ranges
from fact_check_service.claims import Claim, Kind, Range
from fact_check_service.hedges import hedges
from fact_check_service.measured import Measured, measure
from fact_check_service.numerals import numerals
from fact_check_service.sentences import Span


def quantities(text: str, sentence: Span) -> Iterator[Claim]:
    """As in "1,234.5 kg", "25bp", "3 × 10^8 m/s", "$4.2 billion", "3至5公里" and "two million people"."""
    found = [measure(text, sentence, numeral) for numeral in numerals(text, sentence)]
    end = sentence.start
    for this, following in zip_longest(found, found[1:]):
        if this.span.start < end:
            continue
        claim = _range(text, sentence, this, following) or _single(text, sentence, this, following)
        if claim:
            end = claim.span.end
            yield claim


def _range(text: str, sentence: Span, low: Measured, high: Measured | None) -> Claim | None:
    ends = ranges.joined(text, sentence, low, high)
    if ends is None or high is None:
        return None
    span = Span(low.span.start, high.span.end)
    return _claim(text, sentence, span, value=ends, unit=high.unit or low.unit, last=high)


def _single(text: str, sentence: Span, this: Measured, following: Measured | None) -> Claim | None:
    if not this.unit or this.open or ranges.may_follow(text, this, following):
        return None
    return _claim(text, sentence, this.span, value=this.number.value(), unit=this.unit, last=this)


def _claim(
    text: str, sentence: Span, span: Span, *, value: Fraction | Range, unit: str, last: Measured
) -> Claim:
    bound, around = hedges(text, sentence, span)
    end = last.numeral.span.end
    approximate = around or last.numeral.approximate or text.startswith(("余", "多", "来"), end)
    return Claim(Kind.QUANTITY, value, unit, span, sentence, bound, approximate, last.number.step())
