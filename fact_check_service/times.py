"""When a quantity is said to hold: by a date in its clause, or one at the head of its sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fact_check_service import units
from fact_check_service.agreement import agree, comparable
from fact_check_service.claims import Claim, Kind
from fact_check_service.sentences import Span

_HEAD = re.compile(
    r"\W*(?:(?:(?:and|but|back|as|at|on|in|by|for|during|since|until|the|end|early|late|year|of) )*"
    r"|到|在|截至|截止|早在|至|从|自)",
    re.IGNORECASE,
)


_FROM = frozenset({"from", "since", "after", "自", "从"})
_UNTIL = frozenset({"until", "till", "to", "by", "before", "through", "至", "到", "止"})


def opposite(lead: str, other: str) -> bool:
    """Whether one word says from when and the other until when."""
    return (lead in _FROM and other in _UNTIL) or (lead in _UNTIL and other in _FROM)


def dates_among(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    return tuple(claim for claim in claims if claim.kind is Kind.DATE)


def heads(text: str, date: Claim) -> bool:
    """Whether the sentence begins with the date, "In 2019, ...", which dates what follows."""
    return _HEAD.fullmatch(text, date.sentence.start, date.span.start) is not None


def times_of(text: str, claim: Claim, claims: Sequence[Claim], clause: Span) -> tuple[Claim, ...]:
    """The dates that hold for ``claim``: none where another quantity of its kind stands nearer to each."""
    dates = dates_among(claims)
    inside = [date for date in dates if clause.start <= date.span.start < clause.end]
    if inside:
        return tuple(date for date in inside if not _taken(date, claim, claims))
    return tuple(date for date in dates if date.span.end <= claim.span.start and heads(text, date))


def other_time(draft: Iterable[Claim], stated: Iterable[Claim]) -> bool:
    """Whether both have dates and none are the same; a bound, "by 1995", counts as its date."""
    verdicts = [
        agree(replace(one, hedged=False), replace(other, hedged=False))
        for one in draft
        for other in stated
        if comparable(one, other)
    ]
    return bool(verdicts) and not any(verdicts)


def _taken(date: Claim, claim: Claim, claims: Iterable[Claim]) -> bool:
    first, last = sorted((date.span, claim.span))
    return any(
        first.end <= other.span.start < last.start
        for other in claims
        if other.kind is claim.kind is Kind.QUANTITY and units.comparable(other.unit, claim.unit)
    )
