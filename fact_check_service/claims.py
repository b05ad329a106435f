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
class Claim:
    """Something a text states that can be true or false.

    ``value`` is a number in ``unit``, or the days that a date names: None when the calendar has no such
    date. ``hedged`` marks a bound ("over 8,000 m"), which is no statement of the value itself.
    """

    kind: Kind
    value: Fraction | Period | None
    unit: str
    span: Span
    sentence: Span
    hedged: bool = False


Extractor = Callable[[str, Span], Iterator[Claim]]
"""Yields the claims of one kind in one sentence of a text.

A claim that touches the end of the text and could still grow is left out: "2" may become "25 basis
points". It is seen whole when a later block brings the rest.
"""


def extract(text: str, start: int, extractors: Sequence[Extractor]) -> Iterator[tuple[Span, list[Claim]]]:
    """Each sentence from ``start`` that holds claims, with them in the order of the text."""
    for sentence in sentences(text, start):
        claims = [claim for extractor in extractors for claim in extractor(text, sentence)]
        if claims:
            yield sentence, sorted(claims, key=lambda claim: claim.span)
