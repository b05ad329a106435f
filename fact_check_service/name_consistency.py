"""Names of a drafted text against those that stand in the same place in a sentence of its prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz

from fact_check_service.claims import Claim
from fact_check_service.names import KIND_WORDS, NameKind, name_kind
from fact_check_service.sentences import Span
from fact_check_service.subjects import Subject, likeness, subject, words

_ALIKE = 0.65
_SAME_NAME = 85
_FEWEST_SHARED = 2
_NEIGHBOUR_BEFORE = re.compile(r"(?P<word>[A-Za-z]+|[\u4e00-\u9fff]{1,2}?)了?[\s,，:：“\"]*$")
_SUBJECT_BEFORE = re.compile(
    r"(?:^|[,;:.\n]\s*|\b(?:and|but|while|whereas|its|rival)\s+)(?:[Tt]he\s+|[Aa]n?\s+)?$"
)
_DESIGNATOR = re.compile(r"\s(?P<mark>[A-Z]|[A-Z]?[0-9]{1,3}[A-Za-z]?|Max|Pro|Plus|Mini|Ultra|Lite)(?=[\s,])")
_NEIGHBOUR_BEHIND = re.compile(r"[\s,，]*(?P<word>[A-Za-z]+|[\u4e00-\u9fff]{1,2})")


@dataclass(frozen=True, slots=True)
class Named:
    """A name with its subject, what it names, and the words on both sides of it."""

    claim: Claim
    kind: NameKind
    subject: Subject
    before: str
    behind: str


def named(text: str, claim: Claim, others: Sequence[Claim]) -> Named:
    start, end = claim.span
    before = _NEIGHBOUR_BEFORE.search(text, max(claim.sentence.start, start - 24), start)
    behind = _NEIGHBOUR_BEHIND.match(text, end, claim.sentence.end)
    return Named(
        claim,
        name_kind(text, claim.span),
        subject(text, claim, [claim, *others]),
        before["word"].lower() if before else "",
        behind["word"].lower() if behind else "",
    )


def contradicting(
    text: str, draft: Named, stated: Sequence[Named], prompt: str, vocabulary: frozenset[str]
) -> Named | None:
    """The name that the prompt has in the place of the drafted one, which it never mentions itself."""
    if _mentions(prompt, str(draft.claim.value)):
        return None
    alike = [
        (likeness(draft.subject, other.subject, vocabulary), other)
        for other in stated
        if _one_place(draft, other) and not _mentions(text, str(other.claim.value))
    ]
    score, best = max(alike, key=lambda pair: pair[0], default=(0.0, None))
    return best if score >= _ALIKE else None


def of_stranger(
    text: str, claim: Claim, drafted: Sequence[Claim], prompt: str, vocabulary: frozenset[str]
) -> bool:
    """Whether the last name before the claim that is a subject has a part that the prompt never mentions."""
    subjects = [
        name
        for name in drafted
        if name.span.end <= claim.span.start
        and _SUBJECT_BEFORE.search(text, max(name.sentence.start, name.span.start - 24), name.span.start)
    ]
    if not subjects:
        return False
    end = subjects[-1].span.end
    designator = _DESIGNATOR.match(text, end, claim.span.start)
    parts = [*str(subjects[-1].value).split(), *([designator["mark"]] if designator else [])]
    return parts[0].isascii() and not all(
        words(part, Span(0, len(part))) <= vocabulary or _has_in_part(prompt, part.removesuffix("'s"))
        for part in parts
    )


def _one_place(draft: Named, other: Named) -> bool:
    kinds = {draft.kind, other.kind}
    if len(kinds) > 1 and NameKind.ANY not in kinds:
        return False
    shared = (draft.subject.near | draft.subject.far) & (other.subject.near | other.subject.far)
    beside = (draft.before and draft.before == other.before) or (
        draft.behind and draft.behind == other.behind
    )
    return bool(beside) and len(shared) >= _FEWEST_SHARED


def _mentions(text: str, name: str) -> bool:
    """Whether the text has the name, a part of it that names, or something spelled much like it."""
    if name in text:
        return True
    if _clashes(text, name):
        return False
    parts = [part for part in name.split() if len(part) > 2 and part not in KIND_WORDS]
    return fuzz.partial_ratio(name, text) >= _SAME_NAME or any(_has(text, part) for part in parts)


def _clashes(text: str, name: str) -> bool:
    """Whether the text has the first name with another surname."""
    first, _, last = name.rpartition(" ")
    if not first or last in KIND_WORDS or _has(text, last):
        return False
    return re.search(rf"\b{re.escape(first)} [A-ZÀ-Þ][a-zà-ÿ]+", text) is not None


def _has_in_part(text: str, word: str) -> bool:
    """Whether it begins a word of the text, or is made up of the first letters of some."""
    if len(word) > 1 and word.isupper() and word in "".join(re.findall(r"\b[A-Z]", text)):
        return True
    return re.search(rf"\b{re.escape(word)}" + (r"\b" if len(word) < 3 else ""), text) is not None


def _has(text: str, word: str) -> bool:
    return re.search(rf"\b{re.escape(word)}\b", text) is not None
