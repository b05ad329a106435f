"""The picture of a run."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_every_guess_has_a_line_and_a_run_without_measurements_none(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from training import plot  # noqa: PLC0415 – matplotlib is an extra

    measured = [
        {"step": 10.0 * n, "tokens_per_step": 1 + n / 10, "reached_1": 0.4, "reached_2": 0.1} for n in (1, 2)
    ]
    plot.draw(measured, tmp_path / "run.svg")
    plot.draw([], tmp_path / "empty.svg")
    drawn, empty = ((tmp_path / name).read_text() for name in ("run.svg", "empty.svg"))
    assert "<!-- guess 2 -->" in drawn
    assert "<!-- guess 1 -->" not in empty
