"""What a claim is about, as far as the words around it tell, and how alike two subjects are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz import fuzz, process

from fact_check_service.claims import Claim
from fact_check_service.sentences import Span, sentences
from fact_check_service.vocabulary import (
    CHINESE_SENSES,
    OPPOSITES,
    PHRASES,
    SENSES,
    STOP_CHARACTERS,
    STOP_WORDS,
)

_CLAUSE_END = re.compile(
    r"[,;()，；（）。!?！？]|\s[-–—]\s|——|\b(?:and|while|whereas|but|although|though|compared|versus|vs)\b|而|但是?|其中|以及|同时|并且?|(?P<and>[和与及])"
)
_WORD = re.compile(r"[A-Za-zÀ-ɏ][A-Za-zÀ-ɏ0-9'’]*|[0-9]+|[\u4e00-\u9fff]+")
_CHINESE_SENSE = re.compile("|".join(sorted(CHINESE_SENSES, key=len, reverse=True)))
_PHRASE = re.compile("|".join(sorted(PHRASES, key=len, reverse=True)), re.IGNORECASE)
_STOPS = re.compile(f"[{STOP_CHARACTERS}]+")
_INFLECTION = re.compile(r"^(\w{3,}?)(?:ing|ed|(?<=[sxz])es|(?<=[cs]h)es|s)$")
_ALIKE = 85
_SHORTEST_FUZZY = 5
_FAR_WEIGHT, _FAR_MATCH, _ELSEWHERE = 0.3, 0.6, 0.5
_HEAD_MATCH = 0.9
_BACKWARDS = 0.3
_PRONOUN = re.compile(r"\s*(?:(?:It|He|She|They|Its|His|Her|Their|This)\b|[该它其他她])")
_RELATIONS = frozenset(SENSES.values()) | frozenset(CHINESE_SENSES.values())
_LONGEST_HEAD, _FARTHEST_BEFORE = 3, 200
_ONLY_ELSEWHERE = 0.75
_OF_SOMETHING_NEW = 0.6


@dataclass(frozen=True, slots=True)
class Subject:
    """The words of a claim's clause, the first of them, and those of the rest of its sentence.

    A clause that has only words for a relation, "and weighs 168 g", is of what its sentence begins with, or
    the one before it where that is a pronoun: then ``head`` has the words for it.
    """

    near: frozenset[str]
    far: frozenset[str]
    first: str
    head: frozenset[str] = frozenset()


def subject(text: str, claim: Claim, others: Sequence[Claim]) -> Subject:
    """The words around ``claim``; those of claims are left out, as they are what is claimed."""
    clause = clause_of(text, claim, others)
    spans = [other.span for other in others]
    everything = _words(text, claim.sentence, spans)
    near = _words(text, clause, spans) or everything
    far = frozenset(everything) - frozenset(near)
    if not near or not _RELATIONS.issuperset(near):
        return Subject(frozenset(near), far, near[0] if near else "")
    head = _before(text, claim.sentence) if _PRONOUN.match(text, *claim.sentence) else everything
    return Subject(frozenset(near), far, head[0] if head else near[0], frozenset(head[:_LONGEST_HEAD]))


def _before(text: str, sentence: Span) -> list[str]:
    """The words of the sentence before this one."""
    start = max(0, sentence.start - _FARTHEST_BEFORE)
    spans = list(sentences(text[start : sentence.start]))
    return _words(text, Span(start + spans[-1].start, start + spans[-1].end), ()) if spans else []


def clause_of(text: str, claim: Claim, others: Sequence[Claim]) -> Span:
    start, end = claim.sentence
    for found in _CLAUSE_END.finditer(text, *claim.sentence):
        if found["and"] and not _stand_around(found, others):
            continue
        if found.end() <= claim.span.start:
            start = found.end()
        elif found.start() >= claim.span.end:
            end = found.start()
            break
    return Span(start, end)


def _stand_around(found: re.Match[str], claims: Sequence[Claim]) -> bool:
    """Whether there are claims on both sides, so that each side has its own."""
    return any(claim.span.end <= found.start() for claim in claims) and any(
        claim.span.start >= found.end() for claim in claims
    )


def words(text: str, span: Span, left_out: Iterable[Span] = ()) -> frozenset[str]:
    """English words by their stem and sense, Chinese ones by sense or as pairs of characters."""
    return frozenset(_words(text, span, left_out))


def _words(text: str, span: Span, left_out: Iterable[Span]) -> list[str]:
    masked = text[slice(*span)]
    for start, end in left_out:
        first, last = max(start, span.start) - span.start, min(end, span.end) - span.start
        if first < last:
            masked = masked[:first] + " " * (last - first) + masked[last:]
    masked = _PHRASE.sub(lambda phrase: PHRASES[phrase.group().lower()], masked)
    found: list[str] = []
    for match in _WORD.finditer(masked):
        word = match.group()
        if "\u4e00" <= word[0] <= "\u9fff":
            found += _chinese(word)
        elif word.lower() in SENSES or word.lower() not in STOP_WORDS:
            found.append(_stem(word.lower()))
    return found


@lru_cache(maxsize=4096)
def likeness(draft: Subject, source: Subject, document: frozenset[str]) -> float:
    """From 0 to 1: how many of the draft's words the source's sentence has too, and the other way round.

    A word that stands elsewhere in the document, as the name a pronoun stands for does, counts half.
    """
    if _opposed(draft.near, source.near):
        return 0.0
    everything = source.near | source.far
    characters = frozenset("".join(everything))
    near = [
        max(_match(word, source.near, everything, document, characters), _HEAD_MATCH * (word in source.head))
        for word in draft.near
    ]
    if not any(near) or not source.near:
        return 0.0
    far = [_match(word, everything, everything, document, characters) for word in draft.far]
    covered = (sum(near) + _FAR_WEIGHT * sum(far)) / (len(near) + _FAR_WEIGHT * len(far))
    drafted = draft.near | draft.far
    covering = sum(word in drafted for word in source.near) / len(source.near)
    alike = (1 - _BACKWARDS) * covered + _BACKWARDS * covering
    # A clause that begins with what the document never mentions is about that; Chinese shows no word's end.
    new = draft.first.isascii() and not _match(
        draft.first, source.near | source.head, everything, document, characters
    )
    if max(near) <= _ELSEWHERE:
        alike *= _ONLY_ELSEWHERE
    return alike * _OF_SOMETHING_NEW if new else alike


def _match(
    word: str,
    near: frozenset[str],
    everything: frozenset[str],
    document: frozenset[str],
    characters: frozenset[str],
) -> float:
    if word in near:
        return 1.0
    if word in everything:
        return _FAR_MATCH
    if len(word) >= _SHORTEST_FUZZY and process.extractOne(
        word, near, scorer=fuzz.ratio, score_cutoff=_ALIKE
    ):
        return 1.0
    if word[0] >= "\u4e00" and characters.issuperset(word):  # a pair across two words
        return _FAR_MATCH
    return _ELSEWHERE if word in document else 0.0


def _opposed(draft: frozenset[str], source: frozenset[str]) -> bool:
    """Whether one speaks of imports and the other of exports."""
    return any(
        (one in draft and other in source and other not in draft and one not in source)
        or (other in draft and one in source and one not in draft and other not in source)
        for one, other in OPPOSITES
    )


def _stem(word: str) -> str:
    word = word.removesuffix("'s").removesuffix("’s")
    if word in SENSES:
        return SENSES[word]
    stem = _INFLECTION.sub(r"\1", word)
    return SENSES.get(stem, stem).removesuffix("e")


def _chinese(run: str) -> list[str]:
    senses = [CHINESE_SENSES[sense] for sense in _CHINESE_SENSE.findall(run)]
    found: list[str] = []
    for piece in filter(None, _STOPS.split(_CHINESE_SENSE.sub("的", run))):
        found += [piece[place : place + 2] for place in range(len(piece) - 1)] or [piece]
    return found + senses
