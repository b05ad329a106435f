"""Consistency: claims of a drafted text against what its prompt says of the same subject."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from fact_check_service.agreement import agree, comparable
from fact_check_service.cases import Case, case_of, one_case
from fact_check_service.checks.base import EXTRACTORS, Finding
from fact_check_service.checks.base import MAX_CHARACTERS as LONGEST_TEXT
from fact_check_service.claims import Claim, Kind, Verdict, extract, is_sentence
from fact_check_service.doubt import denied
from fact_check_service.further_values import Further, further_values, times
from fact_check_service.hedges import least_and_most
from fact_check_service.name_consistency import Named, contradicting, named, of_stranger
from fact_check_service.names import names
from fact_check_service.numerals import numerals
from fact_check_service.sentences import Span, sentences
from fact_check_service.subjects import Subject, clause_of, likeness, subject, words
from fact_check_service.times import dates_among, heads, opposite, other_time, times_of
from fact_check_service.units import UNITS

RULE = "prompt"
_LEAD_WORD = re.compile(r"(?P<word>\w+ than|[a-z]+|[\u4e00-\u9fff])\s*$")
_LONGEST_LEAD = 24
MAX_CHARACTERS = 65_536
"""Only the end of a longer prompt is looked at: what is asked stands there."""

_LONGEST_EVIDENCE = 400
_ALIKE = 0.6
# Where no other value comes near there is none that the draft could mean instead.
_ALIKE_IF_ALONE = 0.5
_LEAD = 0.2
_SUPPORTS = 0.4
_LEAST = 0.3
_BACKED = 0.25
# How much less alike than a statement that disagrees one may be that agrees, and still be what is meant.
_MARGIN = 0.12


@dataclass(frozen=True, slots=True)
class Statement:
    """A claim with its subject, what else its clause claims, and the word that may make it a bound.

    ``when`` are the dates that hold for it, ``whole`` all claims of its sentence, which a date may head.
    """

    claim: Claim
    subject: Subject
    beside: tuple[Claim, ...]
    lead: str
    case: Case
    when: tuple[Claim, ...]
    whole: tuple[Claim, ...]
    heads: bool
    least: bool
    most: bool


class SourceClaims:
    """What a prompt states: made once for a prompt, and only as far as it is asked for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._further: dict[Span, Further] = {}

    @classmethod
    def of(cls, prompt: str) -> SourceClaims:
        return cls(f"{prompt[1 - MAX_CHARACTERS :]}\n")

    @cached_property
    def by_dimension(self) -> Mapping[str, Sequence[Statement]]:
        found: dict[str, list[Statement]] = defaultdict(list)
        seen: set[str] = set()
        for sentence, claims in self._claims:
            written = self.text[slice(*sentence)].strip()
            if written in seen:
                continue
            seen.add(written)
            if is_sentence(sentence, claims) and not denied(self.text, sentence):
                for claim in claims:
                    found[_dimension(claim)].append(_statement(self.text, claim, claims))
        return found

    @cached_property
    def loose_numbers(self) -> frozenset[Fraction]:
        """Numbers that are no claims by themselves: the 9,000 of "12,000 trees, of which 9,000 survived"."""
        claimed = {place for _, claims in self._claims for claim in claims for place in range(*claim.span)}
        return frozenset(
            numeral.number.value()
            for sentence in self._sentences
            for numeral in numerals(self.text, sentence)
            if numeral.span.start not in claimed
        )

    @cached_property
    def names(self) -> Sequence[Named]:
        claims = dict(self._claims)
        return [
            named(self.text, name, claims.get(sentence, ()))
            for sentence in self._sentences
            if is_sentence(sentence, claims.get(sentence, ()))
            for name in names(self.text, sentence)
        ]

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        return words(self.text, Span(0, len(self.text)))

    def further(self, stated: Statement) -> Further:
        """What its sentence states beside it of the same subject."""
        span = stated.claim.span
        if span not in self._further:
            self._further[span] = further_values(self.text, stated.claim, stated.whole)
        return self._further[span]

    def evidence(self, claim: Claim) -> str:
        return self.text[slice(*claim.sentence)].strip()[:_LONGEST_EVIDENCE]

    @cached_property
    def _sentences(self) -> Sequence[Span]:
        return list(sentences(self.text))

    @cached_property
    def _claims(self) -> Sequence[tuple[Span, list[Claim]]]:
        return list(extract(self.text, 0, EXTRACTORS))


def judge(text: str, claims: Sequence[Claim], source: SourceClaims, since: int = 0) -> list[Finding]:
    """A finding for each claim, in their order, and one more for each name that the prompt contradicts.

    Names are looked for in the sentences that do not end before the character ``since``.
    """
    by_sentence: dict[Span, list[Claim]] = defaultdict(list)
    for claim in claims:
        by_sentence[claim.sentence].append(claim)
    doubted = {
        sentence
        for sentence, claims in by_sentence.items()
        if not is_sentence(sentence, claims) or denied(text, sentence)
    }
    return [
        Finding(claim, Verdict.UNKNOWN)
        if claim.sentence in doubted
        else _judged(text, claim, by_sentence[claim.sentence], source)
        for claim in claims
    ] + list(_misnamed(text, claims, source, since))


def _judged(text: str, claim: Claim, beside: Sequence[Claim], source: SourceClaims) -> Finding:
    found = _finding(_statement(text, claim, beside), source)
    if found.verdict is Verdict.CONTRADICTED and of_stranger(
        text, claim, list(names(text, claim.sentence)), source.text, source.vocabulary
    ):
        return Finding(claim, Verdict.UNKNOWN)
    return found


def _misnamed(text: str, claims: Sequence[Claim], source: SourceClaims, since: int) -> Iterable[Finding]:
    for sentence in sentences(text, max(0, len(text) - LONGEST_TEXT)):
        beside = [claim for claim in claims if claim.sentence == sentence]
        if sentence.end <= since or not is_sentence(sentence, beside) or denied(text, sentence):
            continue
        for name in names(text, sentence):
            drafted = named(text, name, beside)
            stated = contradicting(text, drafted, source.names, source.text, source.vocabulary)
            if stated:
                yield Finding(name, Verdict.CONTRADICTED, RULE, source.evidence(stated.claim))


def _statement(text: str, claim: Claim, claims: Sequence[Claim]) -> Statement:
    start, end = clause_of(text, claim, claims)
    beside = [other for other in claims if other is not claim and start <= other.span.start < end]
    case = case_of(text, claim, Span(start, end), claims)
    when = times_of(text, claim, claims, Span(start, end))
    first = claim.kind is Kind.DATE and heads(text, claim)
    about, lead = subject(text, claim, claims), _lead(text, claim)
    bound = claim.hedged and claim.kind is Kind.QUANTITY
    least, most = (
        least_and_most(text, claim.sentence, claim.span, lasts=_dimension(claim).endswith("time"))
        if bound
        else (False, False)
    )
    return Statement(claim, about, tuple(beside), lead, case, when, tuple(claims), first, least, most)


def _lead(text: str, claim: Claim) -> str:
    before = text[max(claim.sentence.start, claim.span.start - _LONGEST_LEAD) : claim.span.start]
    found = _LEAD_WORD.search(before.lower())
    return found["word"] if found else ""


def _dimension(claim: Claim) -> str:
    return UNITS[claim.unit].dimension if claim.unit else claim.kind.value


def _finding(draft: Statement, source: SourceClaims) -> Finding:
    candidates = list(_candidates(draft, source))
    alike = max((score for score, same, _ in candidates if same is not False), default=0.0)
    against = sorted(
        ((score, stated) for score, same, stated in candidates if same is False), key=_score, reverse=True
    )
    contrary = next((found for found in against if not _states_both(draft, found[1], source)), None)
    if contrary is None or alike >= contrary[0] - _MARGIN:
        supporting = [stated for score, same, stated in candidates if same and score >= max(_SUPPORTS, alike)]
        return _found(draft, Verdict.SUPPORTED, source, supporting[0]) if supporting else _unknown(draft)
    rivals = {repr(stated.claim.value) for score, _, stated in candidates if score >= contrary[0] - _LEAD}
    enough = _ALIKE_IF_ALONE if len(rivals) == 1 else _ALIKE
    if contrary[0] < enough or draft.claim.value in source.loose_numbers:
        return _unknown(draft)
    return _found(draft, Verdict.CONTRADICTED, source, contrary[1])


def _candidates(draft: Statement, source: SourceClaims) -> Iterable[tuple[float, bool | None, Statement]]:
    for stated in source.by_dimension.get(_dimension(draft.claim), ()):
        if not comparable(draft.claim, stated.claim):
            continue
        score = likeness(draft.subject, stated.subject, source.vocabulary)
        if score < _LEAST:
            continue
        same = _agree(draft, stated)
        if _may_speak_of_one(draft, stated, same):
            yield score + _BACKED * (same is True and _backed(draft, stated)), same, stated


def _backed(draft: Statement, stated: Statement) -> bool:
    """Whether what is claimed beside is the same too."""
    beside, others = (
        (draft.beside, stated.beside) if draft.claim.kind is Kind.DATE else (draft.when, stated.when)
    )
    return any(
        agree(one, other) is True
        for one in beside
        for other in others
        if one.kind is not draft.claim.kind and comparable(one, other)
    )


def _states_both(draft: Statement, stated: Statement, source: SourceClaims) -> bool:
    """Whether its sentence states the drafted value too, so that it is evidence against neither."""
    same, of_a_case = source.further(stated)
    others = same if _tells_case(draft.subject, stated.subject) else same + of_a_case
    return any(
        comparable(draft.claim, value)
        and agree(draft.claim, value) is True
        and not other_time(draft.when, times(source.text, value, stated.whole))
        for value in others
    )


def _tells_case(draft: Subject, stated: Subject) -> bool:
    """Whether the draft has all words of the stated clause, those that limit it to a case among them."""
    drafted = draft.near | draft.far
    characters = frozenset("".join(word for word in drafted if not word.isascii()))
    return all(word in drafted or characters.issuperset(word) for word in stated.near)


def _score(scored: tuple[float, Statement]) -> float:
    return scored[0]


def _other_case(draft: Statement, stated: Statement) -> bool:
    """Whether what is claimed beside a date differs too: growth in 2022 is not growth in 2023."""
    if draft.claim.kind is Kind.QUANTITY:
        return False
    beside, others = (draft.whole, stated.whole) if draft.heads else (draft.beside, stated.beside)
    verdicts = [
        agree(one, other)
        for one in beside
        for other in others
        if one.kind is Kind.QUANTITY and comparable(one, other)
    ]
    return bool(verdicts) and not any(verdict is not False for verdict in verdicts)


def _agree(draft: Statement, stated: Statement) -> bool | None:
    return agree(
        draft.claim, stated.claim, one_bound=draft.lead == stated.lead, least=draft.least, most=draft.most
    )


def _may_speak_of_one(draft: Statement, stated: Statement, same: bool | None) -> bool:
    """What has another date is another quantity; a date is right wherever the prompt has it."""
    if draft.claim.kind is Kind.DATE and opposite(draft.lead, stated.lead):
        return False
    contrary = same is False
    if contrary and not one_case(draft.case, stated.case, dates=draft.claim.kind is Kind.DATE):
        return False
    if draft.claim.kind is Kind.QUANTITY and other_time(draft.when, stated.when or dates_among(stated.whole)):
        return False
    if draft.claim.kind is Kind.DATE and not contrary:
        return True
    return not _other_case(draft, stated)


def _unknown(draft: Statement) -> Finding:
    return Finding(draft.claim, Verdict.UNKNOWN)


def _found(draft: Statement, verdict: Verdict, source: SourceClaims, stated: Statement) -> Finding:
    return Finding(draft.claim, verdict, RULE, source.evidence(stated.claim))
