"""Names in a sentence that may be looked up."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fact_check_service.names import names
from fact_check_service.sentences import Span
from fact_check_service.vocabulary import STOP_WORDS

MOST_NAMES, _LONGEST_NAME = 3, 100
_POSSESSIVE = re.compile(r"['’]s?$")
# A word that opens a sentence may be a name too; one before a comma seldom is.
_OPENING = re.compile(r"\W{0,4}(?P<name>[A-ZÀ-Þ][\w-]{2,30})(?=['’]s?\s|\s[a-z(])")
_IN_CHINESE = re.compile(
    r"(?:^|[，。；、：\s])(?P<name>[\u4e00-\u9fff·]{2,14}?)的?"
    r"(?=常住人口|总?人口|总?面积|海拔|高[度约达\d]|[全总]?长[度约达\d]|成立|出生|生于|去世|逝世|[有于占约共\d])"
)


def subjects(text: str, sentence: Span) -> Sequence[Span]:
    """From left to right; the first few of a sentence that has many."""
    opening = _OPENING.match(text, *sentence)
    found = [_without_possessive(text, name.span) for name in names(text, sentence)]
    if opening and opening["name"].lower() not in STOP_WORDS:
        found.append(Span(*opening.span("name")))
    found += [Span(*match.span("name")) for match in _IN_CHINESE.finditer(text, *sentence)]
    chosen: list[Span] = []
    for span in sorted(set(found), key=lambda span: (span.start, -span.end)):
        if (not chosen or span.start >= chosen[-1].end) and span.end - span.start <= _LONGEST_NAME:
            chosen.append(span)
    return chosen[:MOST_NAMES]


def _without_possessive(text: str, span: Span) -> Span:
    owner = _POSSESSIVE.search(text, *span)
    return Span(span.start, owner.start()) if owner else span
