"""Which folders are models, which are refused, and what is loaded of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from common.errors import ConfigError
from common.model import store
from common.model.attention import IMPLEMENTATION
from common.model.cache import cache_dir
from tests.support.models import reference_logits, save_tiny, tiny_model

LAYERS = 3
TOKENS = [5, 9, 2, 33, 60, 7]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny", seed=3, layers=LAYERS)


@pytest.fixture
def copied(saved: str, tmp_path: Path) -> Path:
    """A folder that a test may spoil."""
    return Path(shutil.copytree(saved, tmp_path / "copied"))


def test_a_folder_of_safetensors_is_itself(saved: str) -> None:
    assert store.resolve(saved) == saved


def test_a_hub_name_is_left_to_transformers() -> None:
    assert store.resolve("organisation/model") == "organisation/model"


def test_an_empty_folder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="safetensors") as caught:
        store.resolve(str(tmp_path))
    assert caught.value.field == "model"
    assert str(tmp_path) in caught.value.message


@pytest.mark.parametrize("pickle", ["pytorch_model.bin", "model.pt", "model.pkl"])
def test_a_folder_that_holds_only_a_pickle_is_refused(copied: Path, pickle: str) -> None:
    (copied / "model.safetensors").unlink()
    torch.save({}, copied / pickle)
    with pytest.raises(ConfigError, match="safetensors"):
        store.resolve(str(copied))


def test_a_pickle_is_not_even_loaded_from_a_folder_that_was_not_resolved(copied: Path) -> None:
    (copied / "model.safetensors").unlink()
    torch.save(tiny_model(3, layers=LAYERS).state_dict(), copied / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        store.load_model(str(copied), torch.float32, "cpu")


def test_code_that_comes_with_a_model_is_not_run(copied: Path, tmp_path: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    (copied / "config.json").write_text(json.dumps(config))
    (copied / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    store.load_model(str(copied), torch.float32, "cpu")
    assert not (tmp_path / "ran").exists()


def test_a_loaded_model_computes_what_the_saved_one_did(saved: str) -> None:
    loaded = store.load_model(saved, torch.float32, "cpu")
    expected = reference_logits(tiny_model(3, layers=LAYERS), TOKENS)
    torch.testing.assert_close(reference_logits(loaded, TOKENS), expected)


def test_a_loaded_model_is_for_inference_on_our_attention(saved: str) -> None:
    loaded = store.load_model(saved, torch.bfloat16, "cpu")
    assert not loaded.training
    assert not any(parameter.requires_grad for parameter in loaded.parameters())
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.bfloat16}
    assert loaded.config._attn_implementation == IMPLEMENTATION


@pytest.mark.parametrize("layers", range(1, LAYERS + 1))
def test_the_first_layers_of_a_model_are_those_of_the_whole_with_its_head(saved: str, layers: int) -> None:
    cut = store.load_model(saved, torch.float32, "cpu", layers=layers)
    whole = tiny_model(3, layers=LAYERS)
    whole.model.layers = whole.model.layers[:layers]
    assert len(cut.model.layers) == layers
    torch.testing.assert_close(reference_logits(cut, TOKENS), reference_logits(whole, TOKENS))


@pytest.mark.parametrize("layers", [-1, 0, LAYERS + 1])
def test_layers_that_a_model_does_not_have_are_refused(saved: str, layers: int) -> None:
    with pytest.raises(ConfigError, match=f"between 1 and {LAYERS}") as caught:
        store.load_model(saved, torch.float32, "cpu", layers=layers)
    assert caught.value.field == "layers"


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("TANDEM_CACHE_DIR", "/ours")
    assert cache_dir() == Path("/ours")


def test_without_a_setting_the_cache_is_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TANDEM_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_dir() == Path("/xdg/tandem")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_dir() == Path("/home/someone/.cache/tandem")


def test_a_gpu_computes_in_bfloat16() -> None:
    assert store.default_dtype("cuda:0") == torch.bfloat16


@pytest.mark.parametrize("device", ["warp", "cuda:99", ""])
def test_a_device_that_cannot_be_used_is_named(device: str) -> None:
    with pytest.raises(ConfigError, match=f"'{device}'") as refused:
        store.placement(device)
    assert refused.value.field == "device"


def test_a_device_that_is_asked_for_is_taken() -> None:
    assert store.placement("cpu") == "cpu"
