"""Samples on disk: as many as may be, each once, whatever is interrupted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.unit.training.online.records import sample
from training.online import buffer, traffic
from training.online.buffer import Buffer
from training.online.traffic import held_out


def numbers(kept: traffic.Traffic | None) -> list[int]:
    """Which samples these are, by their prompts."""
    assert kept is not None
    rows = [kept.answers.row(index) for index in range(len(kept))]
    return [row[0] - 2 + 40 * (row[1] - 2) for row in rows]


def test_what_was_added_is_there_after_a_restart_in_order(tmp_path: Path) -> None:
    first = Buffer(tmp_path, 100)
    first.add([sample(0), sample(1, "code", greedy=False)])
    first.add([])
    first.add([sample(2, answer=(4, 3))])
    again = Buffer(tmp_path, 100)
    start, kept = again.kept()
    assert (start, again.end, numbers(kept)) == (0, 3, [0, 1, 2])
    assert kept is not None
    assert kept.classes.tolist() == ["chat", "code", "chat"]
    assert kept.answers.temperatures.tolist() == [0, 1, 0]
    assert kept.answers.row(2) == list(sample(2, answer=(4, 3)).token_ids)
    assert kept.likeliest[:, 0].tolist() == [7, 8, 9, 7, 8, 9, 4, 3]
    assert [again.count(name) for name in ("chat", "code", "other")] == [2, 1, 0]


def test_it_does_not_grow_beyond_what_may_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "_FEW", 4)
    kept = Buffer(tmp_path, 10)
    for number in range(50):
        kept.add([sample(number)])
        assert len(list(tmp_path.iterdir())) <= 4
    start, found = kept.kept()
    assert kept.end == 50
    assert 10 <= 50 - start <= 14
    assert numbers(found) == list(range(start, 50))


def test_a_file_that_was_written_anew_and_not_yet_removed_counts_once(tmp_path: Path) -> None:
    kept = Buffer(tmp_path, 100)
    kept.add([sample(0)])
    (before,) = tmp_path.iterdir()
    content = before.read_bytes()
    kept.add([sample(1)])
    before.write_bytes(content)
    again = Buffer(tmp_path, 100)
    assert numbers(again.kept()[1]) == [0, 1]
    assert again.count("chat") == 2
    again.add([sample(2)])
    assert [path.name for path in tmp_path.iterdir()] == ["000000000000-000000000003.npz"]


def test_what_could_run_code_is_not_read(tmp_path: Path) -> None:
    kept = Buffer(tmp_path, 100)
    kept.add([sample(0)])
    (path,) = tmp_path.iterdir()
    with np.load(path) as file:
        arrays = {name: file[name] for name in file}
    np.savez(path, **{**arrays, "classes": np.array([object], dtype=object)})
    with pytest.raises(ValueError, match="pickle"):
        kept.kept()


def test_a_prompt_is_held_out_always_or_never_and_one_in_sixteen_is() -> None:
    prompts = [[number, number // 7] for number in range(4000)]
    out = [held_out(prompt) for prompt in prompts]
    assert out == [held_out(tuple(prompt)) for prompt in prompts]
    assert 190 < sum(out) < 310
    found = traffic.gather([sample(number) for number in range(200)])
    own = [held_out(found.answers.row(row)[:3]) for row in range(200)]
    assert found.answers.held.tolist() == own
    assert any(own) and not all(own)


def test_rows_that_are_taken_bring_what_was_found_likeliest_in_them() -> None:
    found = traffic.gather([sample(n, answer=range(10 * n, 10 * n + n + 1)) for n in range(4)])
    some = found.take([3, 1])
    assert some.likeliest[:, 0].tolist() == [30, 31, 32, 33, 10, 11]
    assert some.starts.tolist() == [0, 4, 6]
    assert found.take([]).likeliest.shape == (0, 8)
