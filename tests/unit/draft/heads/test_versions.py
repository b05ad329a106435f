"""The folder of versions: each whole or not there, one current, the one before it a command away."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from common.errors import ConfigError
from draft_service.heads import files
from draft_service.heads.files import HeadFile
from draft_service.heads.versions import Version, Versions
from tests.support.heads import VOCABULARY, tiny_head, tiny_shape

SHAPE = tiny_shape()
FILE = HeadFile(SHAPE, {}, torch.arange(VOCABULARY), "tiny", "f")


def publish(folder: Versions, seed: int = 0, version: str = "tiny") -> Version:
    file = HeadFile(SHAPE, {}, FILE.vocabulary, version, "f")
    return folder.publish(tiny_head(SHAPE, seed), file, {"samples": seed})


def test_without_versions_none_is_current(tmp_path: Path) -> None:
    assert Versions(tmp_path / "none").current() == 0
    assert Versions(tmp_path).numbers() == []


def test_what_is_published_is_current_and_says_what_it_came_from(tmp_path: Path) -> None:
    folder = Versions(tmp_path)
    first, second = publish(folder, 1), publish(folder, 2)
    assert (first.number, first.parent, second.number, second.parent) == (1, 0, 2, 1)
    assert folder.current() == 2
    assert folder.version(2).card["samples"] == 2
    loaded = files.load(folder.path(2))
    expected = tiny_head(SHAPE, 2).state_dict()["join.weight"].bfloat16()
    assert torch.equal(loaded.weights["join.weight"], expected)


def test_the_first_keeps_its_name_and_later_ones_have_their_number_in_it(tmp_path: Path) -> None:
    folder = Versions(tmp_path)
    publish(folder)
    publish(folder)
    publish(folder, version="tiny.2")
    assert [files.load(folder.path(number)).version for number in (1, 2, 3)] == ["tiny", "tiny.2", "tiny.3"]


def test_going_back_goes_to_the_parent_and_what_is_published_then_begins_there(tmp_path: Path) -> None:
    folder = Versions(tmp_path)
    for seed in range(3):
        publish(folder, seed)
    assert folder.roll_back().number == 2
    assert folder.current() == 2
    assert publish(folder).parent == 2
    assert folder.current() == 4
    assert [folder.roll_back().number for _ in range(2)] == [2, 1]
    with pytest.raises(ConfigError, match="nothing before version 1"):
        folder.roll_back()
    assert folder.current() == 1


def test_old_versions_go_and_the_current_one_and_its_parent_stay(tmp_path: Path) -> None:
    folder = Versions(tmp_path, kept=2)
    for seed in range(4):
        publish(folder, seed)
    assert folder.numbers() == [3, 4]
    folder.roll_back()
    publish(folder)
    assert folder.numbers() == [3, 4, 5]
    assert folder.version(5).parent == 3


def test_what_was_not_finished_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Versions(tmp_path)
    publish(folder)

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr("draft_service.heads.versions.json.dumps", full)
        with pytest.raises(OSError, match="no space left"):
            publish(folder)
    with monkeypatch.context() as patched:
        patched.setattr("draft_service.heads.versions.os.fsync", full)
        with pytest.raises(OSError, match="no space left"):
            publish(folder)
    assert folder.current() == 1
    assert publish(folder).parent == 1


@pytest.mark.parametrize("content", [b"", b"two\n", b"-1\n", b"\xff\xfe", "²\n".encode()])
def test_a_pointer_that_is_no_number_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "current").write_bytes(content)
    with pytest.raises(ConfigError):
        Versions(tmp_path).current()


def test_the_pointer_is_replaced_and_never_written_into(tmp_path: Path) -> None:
    """Who opened it before reads what it said then."""
    folder = Versions(tmp_path)
    publish(folder)
    with (tmp_path / "current").open() as reader:
        publish(folder)
        assert reader.read() == "1\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000001", "000002", "current"]
