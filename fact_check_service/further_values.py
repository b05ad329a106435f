"""Further values that a sentence states of the subject of a claim: "300 m (340 m with its ramps)"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from fact_check_service import units
from fact_check_service.claims import Claim, Kind
from fact_check_service.numerals import numerals
from fact_check_service.sentences import Span
from fact_check_service.subjects import clause_of
from fact_check_service.times import times_of

_FILLER = r"(?:(?:about|around|roughly|approximately|nearly|almost|some|only|just|over|an? estimated)\s+)?"
_BE = r"(?:(?:is|are|was|were|(?:has|have|had)\s+been|be|stands?|stood)\s+)?"
_ADVERB = (
    r"(?:now|later|then|once|today|currently|since|formerly|previously|originally|initially|earlier|again|before"
    r"|afterwards)"
)
_MOVED = r"(?:\w+ed|rose|risen|fell|fallen|grew|grown|cut|set|up|down|back|rising|falling|growing|shrank)"
_TURN = r"(?:现在?|后来?|原先?|曾|一度|此前|之前|之后|随后|最终|已|又|再|目前|当前|如今|去年|上年)"
_MOVED_ZH = (
    r"(?:延长|扩大|扩建|扩充|增加|增长|增|上升|回升|升|上涨|涨|上调|提高|下降|降低|降|下调|减少|减|缩短|缩减"
    r"|调整|修订|更正|修正|改|恢复|回落)"
)
# What a clause begins with that goes on about the subject before it; dates are left out of it.
_GOES_ON = re.compile(
    rf"(?:(?:and|but|or|in|by|which|that|it|they|had)\s+)*{_BE}"
    rf"(?:{_ADVERB}\s+(?:{_BE}(?:{_MOVED}\s+)?(?:to|from|at)\s+)?|(?:{_ADVERB}\s+)?{_MOVED}\s+(?:to|from)\s+)"
    rf"{_FILLER}"
    rf"|[在到于]?(?:{_TURN}+{_MOVED_ZH}?|{_MOVED_ZH})[了又]?[至到为达是有]?[约近]?",
    re.IGNORECASE,
)
# One that names nothing but a case of it, or who says so.
_BARE = re.compile(
    rf"(?:(?:and|but|or)\s+)?(?:(?:in|at|on|during|by|with)\s+(?:the\s+)?\w+\s+)?{_FILLER}"
    r"|(?:[\w’'-]+\s+){1,5}(?:says?|said|puts?|estimates?|estimated|counts?|counted|gives?|gave|claims?|claimed)"
    rf"\s+(?:(?:it|that)\s+)?(?:(?:at|is|was|were)\s+)?{_FILLER}"
    r"|(?:[\u4e00-\u9fff]{1,3}[季期时间])?[长宽高深重约为达有是]{0,2}"
    r"|[\u4e00-\u9fff]{1,10}(?:称|表示|认为|估计|统计)[共为有达是约]{0,2}",
    re.IGNORECASE,
)
_BETWEEN_CLAUSES = re.compile(r"[\s,;()，；（）。、]*(?:(?:and|but|而|但是?)\s*)?")
_SHARES_UNIT = re.compile(
    r"\s?[-–—~～/、→]\s?|\s(?:to|or|and)\s(?:\w+\s){0,2}|[^，。；0-9]{0,6}[至到或和与为]|,\s", re.IGNORECASE
)
_LONGEST_BETWEEN = 24


class Further(NamedTuple):
    """``same`` are stated of just what the claim is stated of; ``of_a_case``, where that is limited to one
    case, of another: "12 m in summer, 15 m in winter"."""

    same: tuple[Claim, ...]
    of_a_case: tuple[Claim, ...]


def further_values(text: str, claim: Claim, claims: Sequence[Claim]) -> Further:
    """Those of a quantity; what happened on a date is told by the verb, so that dates have none."""
    if claim.kind is not Kind.QUANTITY:
        return Further((), ())
    same, of_a_case = list(_of_shared_unit(text, claim, claims)), []
    own = clause_of(text, claim, claims)
    for other in claims:
        if other is claim or other.kind is not Kind.QUANTITY or not units.comparable(other.unit, claim.unit):
            continue
        clause = clause_of(text, other, claims)
        lead = _lead(text, other, clause, claims)
        bare, bracketed = _BARE.fullmatch(lead), text[clause.start - 1 : clause.start] in {"(", "（"}
        if (bracketed and bare) or _GOES_ON.fullmatch(lead):
            same += [other] if _beside(text, own, clause) else []
        elif bare and clause != own:
            of_a_case.append(other)
    return Further(tuple(same), tuple(of_a_case))


def times(text: str, value: Claim, claims: Sequence[Claim]) -> tuple[Claim, ...]:
    return times_of(text, value, claims, clause_of(text, value, claims))


def _lead(text: str, claim: Claim, clause: Span, claims: Sequence[Claim]) -> str:
    """What the clause has before the claim, without the dates in it."""
    lead = text[clause.start : claim.span.start]
    for date in claims:
        if date.kind is Kind.DATE and clause.start <= date.span.start and date.span.end <= claim.span.start:
            lead = lead.replace(text[slice(*date.span)], "")
    return lead.lstrip()


def _beside(text: str, one: Span, other: Span) -> bool:
    first, last = sorted((one, other))
    return one == other or _BETWEEN_CLAUSES.fullmatch(text, first.end, last.start) is not None


def _of_shared_unit(text: str, claim: Claim, claims: Sequence[Claim]) -> Iterator[Claim]:
    """The 1.2 million of "from 1.2 to 1.5 million", to which unit and scale belong as well."""
    start = max(claim.sentence.start, claim.span.start - 2 * _LONGEST_BETWEEN)
    found = numerals(text, Span(start, claim.sentence.end))
    scale = next((each.scale for each in found if each.span.end > claim.span.start), 0)
    for other in found:
        gap = claim.span.start - other.span.end
        if not 0 < gap <= _LONGEST_BETWEEN or _has_unit(other.span, claims):
            continue
        if _SHARES_UNIT.fullmatch(text, other.span.end, claim.span.start):
            for power in {0, scale}:
                yield replace(claim, span=other.span, value=other.number.scaled(power).value())


def _has_unit(number: Span, claims: Sequence[Claim]) -> bool:
    """Whether a claim goes on behind the number; that of "$12" does not."""
    return any(claim.span.start <= number.start and number.end < claim.span.end for claim in claims)
