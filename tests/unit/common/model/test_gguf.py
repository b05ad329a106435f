"""GGUF files are converted to safetensors once, into the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from common.errors import ConfigError
from common.model import store
from tests.unit.common.model import gguf_files


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("TANDEM_CACHE_DIR", str(folder))
    return folder


def embedding(folder: str) -> torch.Tensor:
    model: Any = store.load_model(folder, torch.float32, "cpu")
    weight: torch.Tensor = model.get_input_embeddings().weight
    return weight


def test_a_gguf_file_becomes_a_folder_in_the_cache_that_loads(tmp_path: Path, cache: Path) -> None:
    folder = store.resolve(str(gguf_files.write(tmp_path / "tiny.gguf", seed=1)))
    assert Path(folder).parent == cache
    assert store.resolve(folder) == folder
    assert embedding(folder).shape == (gguf_files.VOCABULARY, gguf_files.HIDDEN)
    assert store.load_tokenizer(folder).decode(store.load_tokenizer(folder)("ABBA")["input_ids"]) == "ABBA"


def test_a_gguf_file_is_converted_once(tmp_path: Path) -> None:
    path = str(gguf_files.write(tmp_path / "tiny.gguf", seed=1))
    first = Path(store.resolve(path))
    written = (first / "model.safetensors").stat()
    assert Path(store.resolve(path)) == first
    assert (first / "model.safetensors").stat() == written


def test_two_files_of_one_name_and_size_are_not_taken_for_each_other(tmp_path: Path) -> None:
    one = store.resolve(str(gguf_files.write(tmp_path / "one" / "tiny.gguf", seed=1)))
    other = store.resolve(str(gguf_files.write(tmp_path / "other" / "tiny.gguf", seed=2)))
    assert not torch.equal(embedding(one), embedding(other))


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.gguf") as caught:
        store.resolve(str(tmp_path / "missing.gguf"))
    assert caught.value.field == "model"


def test_a_conversion_that_fails_leaves_nothing_behind(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(Exception):  # noqa: B017 - which one is up to the reader of the file
        store.resolve(str(path))
    assert list(cache.iterdir()) == []


def test_a_conversion_leaves_only_its_result_in_the_cache(tmp_path: Path, cache: Path) -> None:
    folder = store.resolve(str(gguf_files.write(tmp_path / "tiny.gguf", seed=1)))
    assert [str(path) for path in cache.iterdir()] == [folder]
