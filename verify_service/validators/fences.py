"""Fenced blocks of code in an answer, finished or not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import NamedTuple

_OPENING = re.compile(r"^(`{3,}|~{3,})[ \t]*([^\s`]*)[^\n`]*\n", re.MULTILINE)


class Span(NamedTuple):
    start: int
    end: int


def code(text: str, languages: Set[str]) -> Iterator[Span]:
    """Where the code of these languages stands, in order: blocks whose fences are not indented.

    The last line of a text that might become the end of its block belongs to no code.
    """
    opening = _OPENING.search(text)
    while opening:
        closing = _closing(opening[1]).search(text, opening.end())
        end = closing.start() if closing else len(text)
        if opening[2].lower() in languages:
            yield Span(opening.end(), end)
        opening = _OPENING.search(text, closing.end()) if closing else None


def _closing(fence: str) -> re.Pattern[str]:
    """A line of such a fence, or the beginning of one at the end of the text."""
    mark, least = re.escape(fence[0]), len(fence)
    return re.compile(rf"^(?:{mark}{{{least},}}[ \t]*$|{mark}{{1,{least - 1}}}\Z)", re.MULTILINE)
