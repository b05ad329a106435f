"""``python -m draft_service.datastore DOCUMENTS… --out DIR``: make what ``retrieval`` looks in."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from common.errors import ConfigError
from common.model import store
from common.model.tokenizer import Tokenizer
from draft_service.config import Config
from draft_service.sources import datastore

_TEXT, _LINES = frozenset({".txt", ".md"}), frozenset({".jsonl"})


def texts(paths: Sequence[Path]) -> Iterator[str]:
    """The documents of files and, below folders, of every file of a kind that is known.

    A ``.txt`` or ``.md`` is one document; a line of a ``.jsonl`` has one in ``text`` or several in ``turns``.

    Raises:
        ConfigError: naming the file, and the line where it has some.
    """
    for path in paths:
        if path.is_dir():
            yield from texts([p for p in sorted(path.rglob("*")) if p.suffix in _TEXT | _LINES])
        elif path.suffix not in _TEXT | _LINES:
            raise ConfigError(f"{path} is none of {', '.join(sorted(_TEXT | _LINES))}, nor a folder")
        else:
            yield from _lines(path) if path.suffix in _LINES else [_read(path)]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from None


def _lines(path: Path) -> Iterator[str]:
    for number, line in enumerate(_read(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise ConfigError(f"{path}, line {number}: {error}") from None
        found = record.get("turns", [record.get("text")]) if isinstance(record, dict) else None
        if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
            raise ConfigError(f"{path}, line {number}: neither text nor turns")
        yield from found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m draft_service.datastore", description=__doc__)
    parser.add_argument("documents", nargs="+", type=Path, help=".txt, .md, .jsonl, or folders of them")
    parser.add_argument("--out", required=True, type=Path, help="a folder that does not exist yet")
    parser.add_argument("--model", default=Config.model, help="the target, as the verify service names it")
    options = parser.parse_args(arguments)
    try:
        tokenizer = Tokenizer(store.load_tokenizer(store.resolve(options.model)))
        documents = [tokenizer.encode(text) for text in texts(options.documents)]
        made = datastore.save(options.out, documents, tokenizer.fingerprint)
    except ConfigError as error:
        sys.exit(error.message)
    print(f"{options.out}: {made.documents} documents, {made.tokens} tokens")


if __name__ == "__main__":
    main()
