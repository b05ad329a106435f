"""Tokens per step by sources and group, and acceptance by position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.acceptance import records, table
from bench.acceptance.records import Record


def record(sources: str, group: str, tokens: int, steps: int, width: int = 1, **counters: Any) -> Record:
    speculation = {
        "steps": steps,
        "draft_tokens": 0,
        "accepted_tokens": 0,
        "drafted_per_position": [],
        "accepted_per_position": [],
        "missed_waits": 0,
    }
    settings = {"block_size": 4, "tree_width": width}
    return Record(sources, settings, group, tokens, 1.0, speculation | counters)


NGRAM = [
    record(
        "ngram",
        "qa",
        30,
        10,
        draft_tokens=12,
        accepted_tokens=6,
        drafted_per_position=[8, 4],
        accepted_per_position=[5, 1],
    ),
    record("ngram", "qa", 10, 10),
    record("ngram", "rag", 20, 20),
]
NONE = [record("none", "qa", 8, 8)]


def cells(text: str, first: str) -> list[list[str]]:
    """Of all rows that begin so."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return [row for row in rows if row[0] == first]


def test_a_mean_is_all_tokens_of_a_group_by_all_their_steps() -> None:
    found = table.tokens_per_step(records.by_label(NGRAM + NONE))
    assert found["ngram"] == {"qa": 2.0, "rag": 1.0, "overall": 1.5}
    assert found["none"] == {"qa": 1.0, "overall": 1.0}


def test_the_tables_have_a_column_for_every_group_and_position() -> None:
    text = table.text(records.by_label(NONE + NGRAM))
    assert cells(text, "tokens per step") == [["tokens per step", "qa", "rag", "overall"]]
    assert cells(text, "none") == [["none", "1.00", "", "1.00"]]
    assert cells(text, "ngram") == [
        ["ngram", "2.00", "1.00", "1.50"],
        ["ngram", "0.50", "0.62", "0.25"],
    ]
    assert "given up" not in text


def test_waits_that_were_given_up_are_told() -> None:
    text = table.text(records.by_label([record("ngram", "qa", 4, 4, missed_waits=3)]))
    assert text.endswith("ngram: 3 waits for a block were given up")


def test_runs_with_other_settings_are_rows_of_their_own_but_for_those_without_drafts() -> None:
    wide = [record("ngram", "qa", 4, 2, width=3), record("none", "qa", 5, 5, width=3)]
    labelled = records.by_label(NGRAM + NONE + wide)
    assert list(labelled) == ["ngram, tree_width 1", "none", "ngram, tree_width 3"]
    assert labelled["none"] == [*NONE, wide[1]]


def test_further_runs_are_added_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    records.append(path, NGRAM)
    records.append(path, NONE)
    assert records.read(path) == NGRAM + NONE


def test_the_plot_has_the_groups_and_sources_and_is_the_same_for_the_same_numbers(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from bench.acceptance import plot  # noqa: PLC0415 – matplotlib is an extra

    found = table.tokens_per_step(records.by_label(NGRAM + NONE))
    for name in ("one.svg", "two.svg"):
        plot.draw(found, tmp_path / name)
    drawn = (tmp_path / "one.svg").read_text()
    assert all(f">{text}</text>" in drawn for text in ("ngram", "qa", "rag", "overall"))
    assert ">none</text>" not in drawn
    assert drawn == (tmp_path / "two.svg").read_text()
