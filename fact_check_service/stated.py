"""Claims of a sentence against what a source states of the subjects that the sentence names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fact_check_service.agreement import agree, comparable
from fact_check_service.checks.base import Finding
from fact_check_service.claims import Claim, Kind, Verdict, is_sentence
from fact_check_service.doubt import denied
from fact_check_service.names import names
from fact_check_service.sentences import Span
from fact_check_service.subjects import clause_of, words

# A change, a share or a part is not the value itself; nor is what was, or will be, or belongs to another.
_ANOTHER_VALUE = re.compile(
    r"\b(?:by|grew|grow\w*|rose|ris(?:e|es|en|ing)|fell|fall\w*|increas\w+|decreas\w+|declin\w+|dropp?\w*|add(?:ed|s)"
    r"|lost|another|additional|half|third|per|each|every|metropolitan|metro|urban|rural|average|median"
    r"|expected|projected|planned|will|once|formerly|previously|originally|base camp|from sea level|away)\b"
    r"|增加|增长|减少|下降|上升|每|平均|预计|计划|曾经|原先|都市圈|城区|大本营",
    re.IGNORECASE,
)
_LEADING_NO_HEAD = re.compile(
    r"(?:\b(?:in|at|near|from|than|unlike|like|to)\s+(?:the\s+)?|[在于比])$", re.IGNORECASE
)
_OWNS = re.compile(r"['’]s?\s+(?P<what>\w+)|的(?P<chinese>[\u4e00-\u9fff]+)")
_OF = re.compile(r"\bof\s+(?:the\s+)?$", re.IGNORECASE)
_LONGEST_LEAD = 16


@dataclass(frozen=True, slots=True)
class Statement:
    """A value of a property, which ``named_by`` holds the ways to name: all words of one must be there."""

    named_by: tuple[frozenset[str], ...]
    claim: Claim
    evidence: str

    def named_in(self, found: frozenset[str]) -> bool:
        return any(way <= found for way in self.named_by)


@dataclass(frozen=True, slots=True)
class Mention:
    """Where a sentence names a subject, and what is stated of it."""

    span: Span
    statements: tuple[Statement, ...]


def judge(
    text: str, sentence: Span, claims: Sequence[Claim], mentions: Sequence[Mention], source: str
) -> list[Finding]:
    """Findings for those of the sentence's claims that ``source`` has an opinion of."""
    if not mentions or not readable(text, sentence, claims):
        return []
    near = _Sentence(text, sentence, claims, mentions)
    found = ((claim, near.verdict(claim)) for claim in claims)
    return [Finding(claim, verdict[0], source, verdict[1]) for claim, verdict in found if verdict]


def readable(text: str, sentence: Span, claims: Sequence[Claim]) -> bool:
    """Whether it states something that can be told apart from the rest."""
    return is_sentence(sentence, claims) and not denied(text, sentence)


class _Sentence:
    def __init__(
        self, text: str, sentence: Span, claims: Sequence[Claim], mentions: Sequence[Mention]
    ) -> None:
        self._text = text
        self._claims = claims
        self._mentions = mentions
        self._words = words(text, sentence)
        known = [mention.span for mention in mentions]
        others = (name.span for name in names(text, sentence))
        self._names = sorted([*known, *(span for span in others if not _meets(span, known))])

    def verdict(self, claim: Claim) -> tuple[Verdict, str] | None:
        """Support outweighs contradiction: a value right for one subject is not about another."""
        opinions = [
            (mention, *opinion) for mention in self._mentions if (opinion := self._ask(claim, mention))
        ]
        right = [evidence for _, same, evidence in opinions if same]
        if right:
            return Verdict.SUPPORTED, right[0]
        clause = clause_of(self._text, claim, self._claims)
        wrong = [(mention, evidence) for mention, same, evidence in opinions if same is False]
        if not wrong or self._of_another_case(claim, clause):
            return None
        subject = self._subject_of(claim, clause)
        return next(
            ((Verdict.CONTRADICTED, said) for mention, said in wrong if mention.span == subject),
            None,
        )

    def _ask(self, claim: Claim, mention: Mention) -> tuple[bool | None, str] | None:
        """Whether the claim is true of the subject; agreement with any of several values is enough."""
        stated = [
            (agree(claim, statement.claim), statement.evidence)
            for statement in mention.statements
            if comparable(claim, statement.claim) and statement.named_in(self._words)
        ]
        return next(
            (opinion for wanted in (True, None, False) for opinion in stated if opinion[0] is wanted), None
        )

    def _of_another_case(self, claim: Claim, clause: Span) -> bool:
        """Whether the clause speaks of another value than the one stated, or of another time."""
        if _ANOTHER_VALUE.search(self._text, *clause):
            return True
        rivals = sum(comparable(claim, other) for other in self._claims) > 1
        if rivals and not self._names_property(claim, clause):
            return True
        return claim.kind is Kind.QUANTITY and any(self._dates(other, clause) for other in self._claims)

    def _names_property(self, claim: Claim, part: Span) -> bool:
        near = words(self._text, part)
        return any(
            statement.named_in(near)
            for mention in self._mentions
            for statement in mention.statements
            if comparable(claim, statement.claim)
        )

    def _dates(self, other: Claim, clause: Span) -> bool:
        """Whether it is a date in the clause, or in one without other words: "In 1990, ..."."""
        if other.kind is not Kind.DATE:
            return False
        own = clause_of(self._text, other, self._claims)
        return own == clause or not words(self._text, own, [each.span for each in self._claims])

    def _subject_of(self, claim: Claim, clause: Span) -> Span | None:
        """The name that the claim is about: the last one before it that is not there to tell of another.

        A name after "in" only says where, one after "of" names the subject where the property stands before.
        """
        heads = [name for name in self._names if name.start < claim.span.start and self._heads(claim, name)]
        if heads:
            return heads[-1]
        only = self._names[0] if len(self._names) == 1 else None
        return only if only and not _OWNS.match(self._text, only.end) else None

    def _heads(self, claim: Claim, name: Span) -> bool:
        owned = _OWNS.match(self._text, name.end, claim.sentence.end)
        if owned and not self._names_property(claim, Span(*owned.span(owned.lastgroup or 0))):
            return False
        before = self._text[max(claim.sentence.start, name.start - _LONGEST_LEAD) : name.start]
        if _OF.search(before):
            return self._names_property(claim, _clause_at(self._text, name, claim, self._claims))
        return not _LEADING_NO_HEAD.search(before)


def _clause_at(text: str, name: Span, claim: Claim, claims: Sequence[Claim]) -> Span:
    """The clause that a name stands in."""
    placed = Claim(Kind.NAME, None, "", name, claim.sentence)
    return clause_of(text, placed, claims)


def _meets(span: Span, others: Iterable[Span]) -> bool:
    return any(span.start < other.end and other.start < span.end for other in others)
