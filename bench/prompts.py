"""Prompts from Spec-Bench, evenly picked from its six groups, or a few of our own in its place."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

_SPEC_BENCH = Path(__file__).parents[1] / "../shared/data/spec_bench/dev.jsonl"
_BUILT_IN = Path(__file__).with_name("prompts.jsonl")
_OWN_GROUP = {"translation", "summarization", "qa", "math_reasoning", "rag"}


@dataclass(frozen=True)
class Prompt:
    group: str
    text: str


def add_options(parser: argparse.ArgumentParser, per_group: int) -> None:
    """``--prompts`` and ``--per-group``, what ``load`` takes."""
    parser.add_argument(
        "--prompts",
        type=Path,
        default=_SPEC_BENCH if _SPEC_BENCH.is_file() else _BUILT_IN,
        help="a Spec-Bench file of JSON lines; a few prompts of our own where none is found",
    )
    parser.add_argument("--per-group", type=int, default=per_group, help="prompts of each of the six groups")


def load(path: Path, per_group: int) -> list[Prompt]:
    """Every other category belongs to ``mt_bench``. Exits when the file is not there."""
    if not path.is_file():
        sys.exit(f"bench: {path.resolve()} is not there; name a Spec-Bench file with --prompts")
    groups: dict[str, list[Prompt]] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        group = row["category"] if row["category"] in _OWN_GROUP else "mt_bench"
        groups.setdefault(group, []).append(Prompt(group, row["turns"][0]))
    return [
        prompt for rows in groups.values() for prompt in rows[:: max(1, len(rows) // per_group)][:per_group]
    ]
