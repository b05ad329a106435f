"""Tables for a page of documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(map(_line, [header, ["---"] * len(header), *rows]))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
