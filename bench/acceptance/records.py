"""One line per answer, kept in a file to which further runs add."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.setups import NONE


@dataclass(frozen=True)
class Record:
    """
    Attributes:
        sources: as ``Setup`` has them.
        settings: what else the run was told, by name.
        group: of the prompt.
        speculation: the answer's own counters.
    """

    sources: str
    settings: Mapping[str, Any]
    group: str
    tokens: int
    seconds: float
    speculation: Mapping[str, Any]


def append(path: Path, records: Iterable[Record]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(record)) + "\n" for record in records)


def read(path: Path) -> list[Record]:
    return [Record(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def by_label(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Each kind of run by its sources and by those of its settings that differ from another's."""
    drafted = [record for record in records if record.sources != NONE]
    names = dict.fromkeys(name for record in drafted for name in record.settings)
    varying = [name for name in names if len({json.dumps(each.settings.get(name)) for each in drafted}) > 1]
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(_label(record, varying), []).append(record)
    return found


def _label(record: Record, varying: Iterable[str]) -> str:
    """Without drafts no setting makes another number of tokens per step."""
    if record.sources == NONE:
        return NONE
    return ", ".join([record.sources, *(f"{name} {record.settings.get(name)}" for name in varying)])
