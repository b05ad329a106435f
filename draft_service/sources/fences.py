"""Fences of code: when one opens, and of which language it then is."""

from __future__ import annotations

from collections.abc import Iterator

import regex

_FENCE = "```"
_TAGS = {
    "python": "python",
    "javascript": "javascript",
    "typescript": "typescript",
    "java": "java",
    "c++": "cpp",
    "c#": "csharp",
    "ruby": "ruby",
    "rust": "rust",
    "php": "php",
    "kotlin": "kotlin",
    "swift": "swift",
    "sql": "sql",
    "html": "html",
    "css": "css",
    "bash": "bash",
}
_NAMED = regex.compile(
    rf"(?<![\w`])(?:{'|'.join(map(regex.escape, _TAGS))}|Go(?= (?:code|program|function)))(?![\w+#])",
    regex.IGNORECASE,
)
_INTRODUCED = regex.compile(
    r"\b(?:code|example|function|program|script|implementation|query|syntax)\b[^\n`]{0,120}:(\n{0,2})\Z",
    regex.IGNORECASE,
)
_BEGUN = regex.compile(r"(?:\A|:\n{1,2})```\Z")


ENDS = (":", "\n", "`")
"""Where an answer does not end with one of these there is no opening."""


def language(text: str) -> str:
    """The tag of the programming language that a text names last; empty: none."""
    named = [match[0].lower() for match in _NAMED.finditer(text)]
    return _TAGS.get(named[-1], named[-1]) if named else ""


def openings(tail: str, asked: str) -> Iterator[str]:
    """What opens a block of code, or goes on to, where an answer announces one.

    Args:
        tail: the end of the answer, or all of it.
        asked: the tag of the language that the prompt names; empty: it names none.
    """
    tag = language(tail) or asked
    if tag and (introduced := _INTRODUCED.search(tail)):
        yield "\n\n"[len(introduced[1]) :] + _FENCE + tag + "\n"
    elif tag and _BEGUN.search(tail):
        yield tag + "\n"
