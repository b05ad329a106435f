"""Names as they are looked up: words in lower case, each Chinese character a word of its own."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from fact_check_service.sentences import Span

_TOKEN = re.compile(r"[\u4e00-\u9fff]|[^\W_\u4e00-\u9fff]+")
MOST_TOKENS = 24
"""Of one name."""


class Term(NamedTuple):
    """Neighbouring tokens of a text, and where they stand."""

    written: str
    span: Span


def term(name: str) -> str:
    return " ".join(_TOKEN.findall(name.casefold()))


def length(written: str) -> int:
    """In tokens."""
    return written.count(" ") + 1


def terms(text: str, sentence: Span, lengths: Collection[int]) -> Iterator[Term]:
    """Every run of as many tokens as one of ``lengths`` says, from left to right, the longest first."""
    found = list(_TOKEN.finditer(text, *sentence))
    tokens = [match.group().casefold() for match in found]
    ordered = sorted(lengths, reverse=True)
    for first in range(len(tokens)):
        for count in ordered:
            last = first + count
            if last <= len(tokens):
                span = Span(found[first].start(), found[last - 1].end())
                yield Term(" ".join(tokens[first:last]), span)
