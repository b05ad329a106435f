"""What a claim is, and how claims are found in a text."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fact_check_service.sentences import Span, sentences


class Kind(enum.Enum):
    QUANTITY = "quantity"
    DATE = "date"
    NAME = "name"


class Verdict(enum.Enum):
    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Period:
    """The days from ``first`` to ``last``, both included."""

    first: datetime.date
    last: datetime.date

    def overlaps(self, other: Period) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class YearlyDay:
    """A day of no particular year, as in "March 14"."""

    month: int
    day: int


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from ``low`` to ``high``, both included."""

    low: Fraction
    high: Fraction


Value = Fraction | Range | Period | YearlyDay | str


@dataclass(frozen=True, slots=True)
class Claim:
    """Something a text states that can be true or false.

    ``value`` is a number or a range of numbers in ``unit``, the name itself, or the days that a date names:
    None when the calendar has no such date. ``hedged`` marks a bound ("over 8,000 m"), which is no statement
    of the value itself; ``approximate`` a value that is said to be rounded ("about 9,000 m"). ``step`` is the
    place of the last digit written: 0.1 million for "1.5 million".
    """

    kind: Kind
    value: Value | None
    unit: str
    span: Span
    sentence: Span
    hedged: bool = False
    approximate: bool = False
    step: Fraction = Fraction(0)


LONGEST_SENTENCE, MOST_CLAIMS = 2_000, 40


def is_sentence(sentence: Span, claims: Sequence[Claim]) -> bool:
    """What is very long or all numbers is a list, of which nobody can tell what belongs to what."""
    return sentence.end - sentence.start <= LONGEST_SENTENCE and len(claims) <= MOST_CLAIMS


Extractor = Callable[[str, Span], Iterator[Claim]]
"""Yields the claims of one kind in one sentence of a text.

A claim that touches the end of the text and could still grow is left out: "2" may become "25 basis
points". It is seen whole when a later block brings the rest.
"""


def extract(
    text: str, start: int, extractors: Sequence[Extractor], since: int = 0
) -> Iterator[tuple[Span, list[Claim]]]:
    """Each sentence from ``start`` that holds claims, with them in the order of the text.

    Those that end before ``since`` are passed over: they were looked at when they were new.
    """
    for sentence in sentences(text, start):
        if sentence.end <= since:
            continue
        claims = [claim for extractor in extractors for claim in extractor(text, sentence)]
        if claims:
            yield sentence, sorted(claims, key=lambda claim: claim.span)
