"""Where a text first ceases to be the beginning of a program, told by what tree-sitter's parser logs.

The parsed tree does not say: text that is merely unfinished has error nodes too, and they begin anywhere. The
log has the token at which no version of the parse could go on, and each character that the lexer looked at.
"""

from __future__ import annotations

import re

from tree_sitter import LogType

_NUMBER = re.compile(r"\d+")
_ENDING = frozenset("()[]{},;")  # no longer token begins with one of these


class FirstError:
    """Follows one parse of ``text``, in which every character is one byte.

    Attributes:
        limit: a beginning of the text that is longer cannot be continued to a program; None: any can.
    """

    def __init__(self, text: bytes) -> None:
        self.limit: int | None = None
        self._text = text
        self._lines = _line_starts(text)
        self._over = False
        self._lexed = self._place = 0  # where the lexer began, past what it skipped, and where it is
        self._seen = 0  # the end of what any lexing looked at
        self._tried = 0  # the end of what was taken and came to nothing
        self._version = 0  # where the version of the parse is that moves now
        self._stuck = 0  # where the furthest version of the parse stopped
        self._token = ""  # and at which token

    def __call__(self, kind: LogType, message: str) -> None:
        if self._over:
            return
        word, _, rest = message.partition(" ")
        if word == "consume":
            self._consume(rest)
        elif word == "skip":
            self._skip()
        elif word in ("lex_internal", "lex_external"):
            self._begin(rest)
        elif word == "lexed_lookahead":
            self._place = self._lexed
        elif word == "process":
            self._version = self._offset(rest, first=3)
        elif word == "detect_error":
            self._stop(rest)
        elif word == "resume":
            self._conclude()
        elif word == "accept":
            self._over = True

    def _begin(self, rest: str) -> None:
        if self._place > self._lexed:
            self._tried = max(self._tried, self._place)
        self._lexed = self._place = self._offset(rest, first=1)

    def _skip(self) -> None:
        self._place = self._lexed = self._place + 1
        self._seen = max(self._seen, self._place)

    def _consume(self, rest: str) -> None:
        """A word is looked at once more from its beginning, for a keyword."""
        if self._place >= len(self._text) or _shown(self._text[self._place]) != rest:
            self._place = self._lexed
        self._place += 1
        self._seen = max(self._seen, self._place)

    def _stop(self, rest: str) -> None:
        if self._version >= self._stuck:
            self._stuck = self._version
            self._token = rest.removeprefix("lookahead:")

    def _conclude(self) -> None:
        """No version is left."""
        self._over = True
        if self._token == "end":
            return
        last = self._text[self._lexed : self._seen].decode()
        whole = last == self._token and last in _ENDING and self._tried < self._seen
        limit = self._seen - whole
        if limit < len(self._text):
            self.limit = limit

    def _offset(self, rest: str, first: int) -> int:
        row, column = map(int, _NUMBER.findall(rest)[first : first + 2])
        return self._lines[row] + column


def _line_starts(text: bytes) -> list[int]:
    starts = [0]
    while (found := text.find(b"\n", starts[-1])) >= 0:
        starts.append(found + 1)
    return starts


def _shown(byte: int) -> str:
    return f"character:'{chr(byte)}'" if 32 <= byte < 127 else f"character:{byte}"
