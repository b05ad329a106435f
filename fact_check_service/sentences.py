"""Sentence boundaries, good enough to keep a rule's subject and its value together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_BREAK = re.compile(r"""[.!?…]["'”’)\]]{0,3}(?=\s)|[。！？]|\n""")
_ABBREVIATION = re.compile(
    r"(?<![^\s.(])[A-Z]$|\b(?:Mt|Dr|Mrs?|Ms|St|Prof|vs|approx|ca?|No|Fig|e\.g|i\.e"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)$"
)
_LONGEST_ABBREVIATION = 8


class Span(NamedTuple):
    """Characters ``start`` up to, not including, ``end``."""

    start: int
    end: int


def sentences(text: str, start: int = 0) -> Iterator[Span]:
    """The sentences of ``text`` from ``start``, the last one as far as it goes."""
    for found in _BREAK.finditer(text, start):
        if not _inside_sentence(text, found):
            yield Span(start, found.end())
            start = found.end()
    if start < len(text):
        yield Span(start, len(text))


def _inside_sentence(text: str, found: re.Match[str]) -> bool:
    """Whether the mark is a full stop after "Mt" or before a word that goes on in lower case."""
    if not found.group().startswith("."):
        return False
    before = text[max(0, found.start() - _LONGEST_ABBREVIATION) : found.start()]
    following = text[found.end() + 1 : found.end() + 2]
    return following.islower() or _ABBREVIATION.search(before) is not None
