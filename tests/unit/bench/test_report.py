"""The benchmark's tables say what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import prompts, report
from bench.measure import Rounds, Run


def run(group: str, seconds: float, text: str = "same", **speculation: Any) -> Run:
    defaults = {"steps": 10, "draft_tokens": 0, "accepted_tokens": 0}
    positions: dict[str, list[int]] = {"drafted_per_position": [], "accepted_per_position": []}
    return Run(group, 20, seconds, text, {**defaults, **positions, **speculation})


ROUNDS = Rounds(
    plain=[run("qa", 4.0), run("rag", 2.0)],
    drafted=[
        run(
            "qa",
            2.0,
            draft_tokens=8,
            accepted_tokens=4,
            drafted_per_position=[4, 4],
            accepted_per_position=[3, 1],
        ),
        run("rag", 2.0, text="other"),
    ],
    phases={"draft": 0.001, "verify": 0.05},
)


def cells(table: str, first: str) -> list[str]:
    return next(line for line in table.splitlines() if line.startswith(first)).split()


def test_speed_tokens_per_step_and_acceptance_by_group() -> None:
    table = report.table(ROUNDS)
    assert cells(table, "qa") == ["qa", "5.0", "10.0", "2.00", "2.00", "0.50"]
    assert cells(table, "overall") == ["overall", "6.7", "10.0", "1.50", "2.00", "0.50"]


def test_acceptance_by_position_phases_and_equal_answers() -> None:
    table = report.table(ROUNDS)
    assert "acceptance by position: 0.75 0.25" in table
    assert "draft 1.00, verify 50.00" in table
    assert "1 of 2" in table


def test_a_position_is_judged_by_the_answers_that_reached_it() -> None:
    short = {"drafted_per_position": [2], "accepted_per_position": [1]}
    long = {"drafted_per_position": [6, 4], "accepted_per_position": [5, 1]}
    assert report.acceptance_by_position([short, long]) == [0.75, 0.25]
    assert report.acceptance_by_position([]) == []


def test_the_reference_is_compared_by_tokens_per_second() -> None:
    line = report.against_reference(ROUNDS, [run("qa", 4.0)], "bfloat16")
    assert line.startswith("transformers.generate bfloat16: 5.0 tok/s")
    assert "(2.00 x)" in line


def test_prompts_are_picked_evenly_from_every_group(tmp_path: Path) -> None:
    rows = [{"category": "qa", "turns": [f"q{i}"]} for i in range(9)]
    rows += [{"category": "writing", "turns": [f"w{i}"]} for i in range(3)]
    path = tmp_path / "spec.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    chosen = prompts.load(path, per_group=3)
    assert [prompt.text for prompt in chosen] == ["q0", "q3", "q6", "w0", "w1", "w2"]
    assert {prompt.group for prompt in chosen} == {"qa", "mt_bench"}


def test_the_built_in_prompts_are_of_all_six_groups() -> None:
    path = Path(prompts.__file__).with_name("prompts.jsonl")
    groups = [prompt.group for prompt in prompts.load(path, per_group=3)]
    assert {groups.count(group) for group in groups} == {2}
    assert len(set(groups)) == 6


def test_a_missing_prompt_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--prompts"):
        prompts.load(tmp_path / "none.jsonl", per_group=3)
