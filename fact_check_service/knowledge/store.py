"""The SQLite file: how it is written, and how subjects are looked up in it."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterable
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from fact_check_service.knowledge.facts import Fact
from fact_check_service.knowledge.terms import length
from fact_check_service.stated import Statement

APPLICATION, VERSION = 0x54464B42, 1
"""What marks a file as a knowledge base, and one with these tables."""

_SCHEMA = f"""
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
CREATE TABLE facts (
    subject TEXT NOT NULL, property TEXT NOT NULL, value TEXT NOT NULL, unit TEXT NOT NULL,
    source TEXT NOT NULL,
    PRIMARY KEY (subject, property, value, unit)
) WITHOUT ROWID;
CREATE TABLE terms (
    term TEXT NOT NULL, subject TEXT NOT NULL, PRIMARY KEY (term, subject)
) WITHOUT ROWID;
CREATE TABLE lengths (tokens INTEGER PRIMARY KEY) WITHOUT ROWID;
"""
_SUBJECTS_KEPT, _TERMS_KEPT = 4_096, 65_536


def write(path: Path, rows: Iterable[tuple[Fact, Iterable[str]]]) -> int:
    """Put the facts, each with the terms that name its subject, in the place of what is at ``path``.

    The file is made under another name first: when ``rows`` raises, what was there stays as it was.

    Returns:
        How many different facts there are.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    making = Path(name)
    try:
        with closing(sqlite3.connect(making)) as database:
            count = _fill(database, rows)
        making.chmod(0o644)
        making.replace(path)
    finally:
        making.unlink(missing_ok=True)
    return count


def _fill(database: sqlite3.Connection, rows: Iterable[tuple[Fact, Iterable[str]]]) -> int:
    database.executescript(_SCHEMA)
    with database:
        for fact, terms in rows:
            database.execute(
                "INSERT OR REPLACE INTO facts VALUES (?, ?, ?, ?, ?)",
                (fact.subject, fact.property, fact.value, fact.unit, fact.source),
            )
            for term in terms:
                database.execute("INSERT OR IGNORE INTO terms VALUES (?, ?)", (term, fact.subject))
                database.execute("INSERT OR IGNORE INTO lengths VALUES (?)", (length(term),))
    count: int = database.execute("SELECT count(*) FROM facts").fetchone()[0]
    return count


class Store:
    """Statements by the terms that name their subject; what was looked up last is kept."""

    def __init__(self, path: str) -> None:
        """
        Raises:
            ValueError: when there is no file at ``path``, or none that ``write`` made.
        """
        uri = f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1"
        try:
            self._database = sqlite3.connect(uri, uri=True, check_same_thread=False)
        except sqlite3.Error as error:
            raise ValueError(str(error)) from None
        try:
            self.lengths = self._read_lengths()
        except (sqlite3.Error, ValueError) as error:
            self.close()
            raise ValueError(str(error)) from None
        self.named = lru_cache(_TERMS_KEPT)(self._named)
        self._statements = lru_cache(_SUBJECTS_KEPT)(self._read_statements)

    def close(self) -> None:
        self._database.close()

    def _read_lengths(self) -> tuple[int, ...]:
        """In tokens, of all terms."""
        for pragma, wanted in (("application_id", APPLICATION), ("user_version", VERSION)):
            found = self._database.execute(f"PRAGMA {pragma}").fetchone()[0]
            if found != wanted:
                raise ValueError(f"no knowledge base of this version: {pragma} is {found}, not {wanted}")
        return tuple(tokens for (tokens,) in self._database.execute("SELECT tokens FROM lengths"))

    def _named(self, term: str) -> tuple[Statement, ...]:
        """What is stated of every subject that ``term`` names."""
        subjects = self._database.execute("SELECT subject FROM terms WHERE term = ?", (term,)).fetchall()
        return tuple(statement for (subject,) in subjects for statement in self._statements(subject))

    def _read_statements(self, subject: str) -> tuple[Statement, ...]:
        rows = self._database.execute("SELECT * FROM facts WHERE subject = ?", (subject,))
        return tuple(Fact(*row).statement() for row in rows)
