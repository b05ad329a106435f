"""``python -m fact_check_service.knowledge``: makes a knowledge base from files of facts."""

from __future__ import annotations

import argparse
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

from fact_check_service.knowledge import loading, store


def main(arguments: Sequence[str] | None = None) -> None:
    """Exits with status 1 and says why when a file cannot be read or holds a bad row."""
    given = _parser().parse_args(arguments)
    try:
        count = store.write(given.out, (row for path in given.files for row in loading.read(path)))
    except (loading.BadRow, OSError, sqlite3.Error) as error:
        print(f"knowledge: {error}", file=sys.stderr)
        sys.exit(1)
    print(f"{count} facts in {given.out}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fact_check_service.knowledge",
        description="Make a knowledge base from files with the columns " + ", ".join(loading.COLUMNS) + ".",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a .csv or .jsonl file")
    parser.add_argument(
        "--out", required=True, type=Path, help="the SQLite file, replaced whole or not at all"
    )
    return parser
