"""Code that may be the beginning of a program, by a tree-sitter grammar."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from tree_sitter import Language, Parser, Tree

from verify_service.validators import fences
from verify_service.validators.base import only, stays, whole
from verify_service.validators.fences import Span
from verify_service.validators.first_error import FirstError

_LONG = 2048
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_SPACES = frozenset("\ufeff\u2060\u200b")
_JOINERS = frozenset("\u200c\u200d")


@dataclass(frozen=True, slots=True)
class Dialect:
    """
    Attributes:
        names: of its fenced blocks.
        statements: matches where a line at the top level must begin a statement, given that all before it
            is a program.
    """

    language: Language
    names: Set[str]
    statements: re.Pattern[str]


class Syntax:
    """Vets the code of one answer. The code before the drafted text is not parsed anew."""

    def __init__(self, dialect: Dialect, options: Mapping[str, str]) -> None:
        only(options, "whole")
        self._whole = whole(options)
        self._dialect = dialect
        self._parser = Parser(dialect.language)
        self._begin(0)

    def longest(self, text: str, start: int, ends: Sequence[int]) -> int:
        for span in self._spans(text):
            if span.end <= start:
                continue
            limit = self._limit(text, span, start)
            if limit is not None:
                return stays(ends, limit)
        return len(ends)

    def _spans(self, text: str) -> Iterable[Span]:
        return [Span(0, len(text))] if self._whole else fences.code(text, self._dialect.names)

    def _begin(self, place: int) -> None:
        """A piece of code begins here, as far as the parser is concerned."""
        self._origin = self._base = place
        self._tree: Tree | None = None
        self._parsed = b""
        self._wrong = False

    def _limit(self, text: str, span: Span, start: int) -> int | None:
        """Where the code goes wrong in the drafted text; None: nowhere."""
        if span.start != self._origin:
            self._begin(span.start)
        if self._wrong:
            return None
        committed = max(start, span.start)
        self._settle(text, committed)
        code, known = _folded(text[self._base : span.end]), committed - self._base
        self._parse_known(code[:known])
        found = self._first_error(code)
        if found is not None and found < known:
            self._wrong = True
            return None
        return None if found is None else self._base + found

    def _settle(self, text: str, committed: int) -> None:
        """Of long code leave out what is a program by itself."""
        if committed - self._base <= _LONG:
            return
        places = [found.start() for found in self._dialect.statements.finditer(text, self._base, committed)]
        for place in reversed(places):
            done = _folded(text[self._base : place])
            if done and not self._parser.parse(done).root_node.has_error:
                self._base, self._tree, self._parsed = place, None, b""
                return

    def _parse_known(self, code: bytes) -> None:
        self._tree = self._parse(code)
        self._parsed = code

    def _first_error(self, code: bytes) -> int | None:
        """What is found with the known tree is looked at once more without it: of code that is unfinished the
        tree has tokens that never were any, and the lexer does not look again at what it took them from."""
        if not self._parse(code).root_node.has_error or self._logged(code, self._parse) is None:
            return None
        return self._logged(code, self._parser.parse)

    def _logged(self, code: bytes, parse: Callable[[bytes], Tree]) -> int | None:
        first = FirstError(code)
        self._parser.logger = first
        parse(code)
        del self._parser.logger
        return first.limit

    def _parse(self, code: bytes) -> Tree:
        """Only what the known tree does not tell already."""
        if self._tree is None or not code.startswith(self._parsed):
            return self._parser.parse(code)
        grown, old = self._tree.copy(), len(self._parsed)
        grown.edit(old, old, len(code), _point(self._parsed), _point(self._parsed), _point(code))
        return self._parser.parse(code, grown)


def _folded(text: str) -> bytes:
    """The same for a parser, with one byte per character."""
    return _NOT_ASCII.sub(lambda found: _ascii(found[0]), text).encode()


def _ascii(character: str) -> str:
    """No keyword has a z."""
    if character.isspace() or character in _SPACES:
        return " "
    return "z" if ("a" + character).isidentifier() or character in _JOINERS else "\x01"


def _point(code: bytes) -> tuple[int, int]:
    return code.count(b"\n"), len(code) - code.rfind(b"\n") - 1
