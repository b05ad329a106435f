"""A head's file holds all that drafting needs, and is whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from common.errors import ConfigError
from draft_service.heads import files
from draft_service.heads.files import HeadFile
from draft_service.heads.shape import Kind
from tests.support.heads import VOCABULARY, tiny_head, tiny_shape


@pytest.mark.parametrize("kind", ["eagle", "medusa"])
def test_what_was_saved_is_loaded(tmp_path: Path, kind: Kind) -> None:
    shape = tiny_shape(kind, layers=(1, 2))
    head, vocabulary = tiny_head(shape), torch.arange(VOCABULARY) + 3
    path = tmp_path / "head.safetensors"
    files.save(path, head, HeadFile(shape, {}, vocabulary, "v1", "print"), torch.float32)
    loaded = files.load(path)
    assert (loaded.shape, loaded.version, loaded.fingerprint) == (shape, "v1", "print")
    assert torch.equal(loaded.vocabulary, vocabulary)
    for name, weight in loaded.module().state_dict().items():
        assert torch.equal(weight, head.state_dict()[name]), name


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "head.safetensors"
    files.write(path, {"a": torch.ones(2)})
    before = path.read_bytes()
    with pytest.raises(RuntimeError):
        shared = torch.ones(4)
        files.write(path, {"a": shared, "b": shared})  # safetensors refuses memory that is shared
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("content", [None, b"", b"not a head", b"\x02\x00\x00\x00\x00\x00\x00\x00{}"])
def test_a_file_that_holds_no_head_is_refused_by_name(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "head.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match="holds no head"):
        files.load(path)


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "head.safetensors"
    head = tiny_head(tiny_shape())
    files.save(path, head, HeadFile(tiny_shape(layers=(1, 2)), {}, torch.arange(VOCABULARY), "v", "f"))
    with pytest.raises(ConfigError, match="do not fit"):
        files.load(path).module()
