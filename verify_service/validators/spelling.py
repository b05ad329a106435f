"""JSON spelled as grammars expect it: of the ways to write a character in a string they know only one."""

from __future__ import annotations

import json
import re
from bisect import bisect_right

_ESCAPE = re.compile(
    r"""
    \\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}  # one character in two halves
  | (?P<unfinished> (?:\\u[dD][89abAB][0-9a-fA-F]{2})? \\(?:u[0-9a-fA-F]{0,3})? \Z
                  | \\u[dD][89abAB][0-9a-fA-F]{2} \Z )
  | \\u[0-9a-fA-F]{4} | \\. | \x7f
    """,
    re.VERBOSE | re.DOTALL,
)


class Spelled:
    """
    Attributes:
        text: without an escape at the end that is not finished.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._starts: list[int] = []
        self._ends: list[int] = []
        pieces: list[str] = []
        place = 0
        for found in _ESCAPE.finditer(source):
            pieces.append(source[place : found.start()])
            self._add(range(place, found.start()))
            pieces.append(_respelled(found))
            self._starts += [found.start()] * len(pieces[-1])
            self._ends += [found.end()] * len(pieces[-1])
            place = found.end()
        if place:
            self._add(range(place, len(source)))
        self.text = "".join(pieces) + source[place:]

    def _add(self, places: range) -> None:
        self._starts += places
        self._ends += range(places.start + 1, places.stop + 1)

    def place(self, index: int) -> int:
        """Where in the source a character begins."""
        return self._starts[index] if index < len(self._starts) else index

    def known(self, end: int) -> int:
        """How many characters are finished before ``end`` of the source."""
        return bisect_right(self._ends, end) if self._ends else min(max(end, 0), len(self.text))


def _respelled(found: re.Match[str]) -> str:
    written = found[0]
    if found["unfinished"]:
        return ""
    if written == "\x7f":
        return "x"
    if written[1] not in "u/" or (len(written) == 2 and written[1] == "u"):
        return written
    character = str(json.loads(f'"{written}"'))
    if character in ('"', "\\"):
        return "\\" + character
    if character < " ":
        return written
    return "\ufffd" if "\ud800" <= character <= "\udfff" else character.replace("\x7f", "x")
