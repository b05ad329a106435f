"""Rows of CSV and JSONL files as facts."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from fact_check_service.knowledge.facts import Fact, claim, named_by, unit_named
from fact_check_service.knowledge.terms import MOST_TOKENS, length, term

REQUIRED = ("subject", "property", "value")
COLUMNS = (*REQUIRED, "unit", "aliases", "source")
_ALIAS_SEPARATOR = "|"
_LONGEST_VALUE = 1_000

T = TypeVar("T")


class BadRow(ValueError):
    """A row that is no fact; the message names the file, the line and the column."""


class _BadColumn(ValueError):
    """What is wrong with a column of a row."""

    def __init__(self, column: str, what: object) -> None:
        super().__init__(f"column {column}: {what}")


def read(path: Path) -> Iterator[tuple[Fact, tuple[str, ...]]]:
    """Each fact with the terms that name its subject.

    Raises:
        BadRow: for the first row at fault.
        OSError: when the file cannot be read.
    """
    if path.suffix not in _ROWS:
        raise BadRow(f"{path}: the name ends in neither .csv nor .jsonl")
    line = 0
    try:
        for line, row in _ROWS[path.suffix](path):  # noqa: B007, the messages name it
            yield _fact(_texts(row))
    except _BadColumn as error:
        raise BadRow(f"{path}, line {line}, {error}") from None
    except (UnicodeDecodeError, csv.Error, json.JSONDecodeError) as error:
        raise BadRow(f"{path}, after line {line}: {error}") from None


def _csv_rows(path: Path) -> Iterator[tuple[int, object]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True, restkey="behind the last")
        for row in reader:
            yield reader.line_num, {column: value for column, value in row.items() if value is not None}


def _json_rows(path: Path) -> Iterator[tuple[int, object]]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, json.loads(line)


_ROWS: Mapping[str, Callable[[Path], Iterator[tuple[int, object]]]] = {
    ".csv": _csv_rows,
    ".jsonl": _json_rows,
}


def _texts(row: object) -> Mapping[str, str]:
    """Every column as text, empty where the row has none; a number of JSON as it is written."""
    if not isinstance(row, dict):
        raise _BadColumn("subject", "the row is no object with columns")
    for column in row:
        if column not in COLUMNS:
            raise _BadColumn(column, f"is none of {', '.join(COLUMNS)}")
    given = {column: _text(column, row.get(column, "")) for column in COLUMNS}
    for column in REQUIRED:
        if not given[column]:
            raise _BadColumn(column, "is missing or empty")
    return given


def _text(column: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _BadColumn(column, "is neither text nor a number")
    text = str(value).strip()
    if len(text) > _LONGEST_VALUE:
        raise _BadColumn(column, f"is longer than {_LONGEST_VALUE:,} characters")
    return text


def _fact(given: Mapping[str, str]) -> tuple[Fact, tuple[str, ...]]:
    unit = _checked("unit", unit_named, given["unit"])
    fact = Fact(given["subject"], given["property"], given["value"], unit, given["source"])
    _checked("value", claim, fact.value, unit)
    _checked("property", named_by, fact.property)
    aliases = filter(None, given["aliases"].split(_ALIAS_SEPARATOR))
    return fact, (_term("subject", fact.subject), *(_term("aliases", alias) for alias in aliases))


def _checked(column: str, function: Callable[..., T], *given: str) -> T:
    try:
        return function(*given)
    except ValueError as error:
        raise _BadColumn(column, error) from None


def _term(column: str, name: str) -> str:
    found = term(name)
    if not 1 <= length(found) <= MOST_TOKENS or not found:
        raise _BadColumn(column, f"{name!r} has no word, or more than {MOST_TOKENS}")
    return found
