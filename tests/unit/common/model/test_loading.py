"""From what is wanted of a model to the weights and the backend it runs with."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
import torch
from transformers import Gemma2Config

from common.errors import ConfigError
from common.model import loading, store
from common.model.batch import Runner, Segment
from common.model.fused import library
from common.model.fused.layout import int4_values
from common.model.fused.runner import FusedRunner
from common.model.loading import Loaded, Wanted
from common.model.runner import ModelRunner
from tests.support import fused
from tests.support.kernels import environment
from tests.support.models import reference_logits, tiny_model

TOKENS = [5, 9, 2, 40, 17]


@pytest.fixture(autouse=True)
def torchs_own_threads() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that holds the kernel alone; the embedded model is in the user's."""
    folder = tmp_path / "cache"
    (folder / "kernels").mkdir(parents=True)
    shutil.copy(library.build(), folder / "kernels")
    if "embedded" not in request.keywords:
        monkeypatch.setenv("TANDEM_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(scope="module")
def model() -> Any:
    return fused.model("qwen3")


@pytest.fixture(scope="module")
def folder(model: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("qwen3")
    model.save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def other_family(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("gemma2")
    fields = fused.SHAPE | {"head_dim": 32, "tie_word_embeddings": True}
    tiny_model(1, attention="eager", config=Gemma2Config(**fields)).save_pretrained(path)
    return str(path)


def wanted(folder: str, **changes: Any) -> Wanted:
    return replace(Wanted(folder, num_blocks=8, threads=1, device="cpu"), **changes)


def logits(runner: Runner) -> torch.Tensor:
    return runner.run([Segment(TOKENS, 0, [3], logits=5)])[0].logits


def load_with_reason(wanted: Wanted) -> tuple[Loaded, Any]:
    with structlog.testing.capture_logs() as events:
        loaded = loading.load(wanted)
    (reason,) = [event["because"] for event in events if event["event"] == "loaded"]
    return loaded, reason


def test_a_model_of_the_family_is_fused_in_what_the_hardware_multiplies(folder: str) -> None:
    loaded, reason = load_with_reason(wanted(folder))
    assert isinstance(loaded.runner, FusedRunner)
    assert (loaded.backend, reason) == ("fused", None)
    assert loaded.weights == str(store.default_dtype("cpu")).removeprefix("torch.")


def test_a_model_that_int4_leaves_as_it_is_becomes_int4(tmp_path: Path) -> None:
    model = fused.model("llama")
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and "layers" in name:
            quanta, scale, minimum = int4_values(parameter)
            parameter.copy_((quanta * scale.float() + minimum.float()).flatten(1))
    model.save_pretrained(tmp_path)
    assert loading.load(wanted(str(tmp_path))).weights == "int4"


@pytest.mark.parametrize("backend", ["fused", "general"])
@pytest.mark.parametrize(
    ("weights", "tolerance"), [("float32", 1e-4), ("bfloat16", 0.05), ("int8", 0.1), ("int4", 0.4)]
)
def test_every_kind_of_weights_runs_on_both_backends(
    folder: str, model: Any, backend: str, weights: str, tolerance: float
) -> None:
    loaded = loading.load(wanted(folder, weights=weights, backend=backend))
    assert (loaded.backend, loaded.weights) == (backend, weights)
    assert isinstance(loaded.runner, FusedRunner if backend == "fused" else ModelRunner)
    expected = reference_logits(model, TOKENS)
    assert (logits(loaded.runner).float() - expected).norm() < tolerance * expected.norm()


def test_another_family_runs_on_the_general_backend_which_says_why(other_family: str) -> None:
    loaded, reason = load_with_reason(wanted(other_family, weights="float32"))
    assert loaded.backend == "general"
    assert "gemma2" in reason
    assert logits(loaded.runner).shape == (5, fused.VOCABULARY)


def test_float16_weights_run_on_the_general_backend(folder: str) -> None:
    loaded, reason = load_with_reason(wanted(folder, weights="float16"))
    assert (loaded.backend, reason) == ("general", "it has no float16 weights")


@pytest.mark.parametrize(
    ("field", "message", "changes"),
    [
        ("weights", "int8 weights are for a CPU", {"weights": "int8", "device": "meta"}),
        ("weights", "int4 weights are for a CPU", {"weights": "int4", "device": "meta"}),
        ("backend", "not for meta", {"weights": "float32", "backend": "fused", "device": "meta"}),
        ("backend", "float16", {"weights": "float16", "backend": "fused"}),
        ("device", "toaster", {"device": "toaster"}),
        ("layers", "between 1 and 2", {"layers": 3}),
        ("layers", "between 1 and 2", {"layers": 0}),
        ("model", "no .safetensors", {"name": "."}),
        ("model", "not a file", {"name": "missing.gguf"}),
    ],
)
def test_what_cannot_be_had_is_refused_by_the_name_of_its_field(
    folder: str, field: str, message: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        loading.load(wanted(folder, **changes))
    assert caught.value.field == field


def test_the_fused_backend_for_another_family_is_refused_with_the_reason(
    other_family: str,
) -> None:
    with pytest.raises(ConfigError, match="gemma2") as caught:
        loading.load(wanted(other_family, backend="fused"))
    assert caught.value.field == "backend"


@pytest.mark.parametrize("weights", ["float32", "int8", "int4"])
def test_without_a_compiler_the_general_backend_computes_the_same(
    folder: str, tmp_path: Path, weights: str
) -> None:
    with_one = logits(loading.load(wanted(folder, weights=weights, backend="general")).runner)
    with environment(CXX="/nonexistent/c++", TANDEM_CACHE_DIR=str(tmp_path / "empty")):
        loaded, reason = load_with_reason(wanted(folder, weights=weights))
        with pytest.raises(ConfigError, match="did not compile") as caught:
            loading.load(wanted(folder, weights=weights, backend="fused"))
    assert caught.value.field == "backend"
    assert loaded.backend == "general"
    assert "/nonexistent/c++" in reason
    torch.testing.assert_close(logits(loaded.runner), with_one, atol=1e-3, rtol=0)


def test_a_model_in_shards_is_read_whole(model: Any, folder: str, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path, max_shard_size="100KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    whole, sharded = (
        logits(loading.load(wanted(str(place), weights="int4")).runner) for place in (folder, tmp_path)
    )
    assert torch.equal(whole, sharded)


@pytest.mark.parametrize("backend", ["fused", "general"])
def test_only_the_first_layers_are_kept(folder: str, model: Any, backend: str) -> None:
    loaded = loading.load(wanted(folder, layers=1, weights="float32", backend=backend))
    first = fused.model("qwen3", num_hidden_layers=1)
    first.load_state_dict(model.state_dict(), strict=False)
    torch.testing.assert_close(logits(loaded.runner), reference_logits(first, TOKENS), atol=1e-4, rtol=0)


def test_numerics_change_with_whatever_may_change_a_token(folder: str, other_family: str) -> None:
    made = [
        wanted(folder, weights="float32"),
        wanted(folder, weights="bfloat16"),
        wanted(folder, weights="int8"),
        wanted(folder, weights="int4"),
        wanted(folder, weights="float32", backend="general"),
        wanted(folder, weights="int8", backend="general"),
        wanted(folder, weights="float32", layers=1),
        wanted(other_family, weights="float32"),
    ]
    numerics = [loading.load(one).numerics for one in made]
    assert len(set(numerics)) == len(made)
    assert loading.load(made[0]).numerics == numerics[0]


def test_packed_weights_are_kept_and_read_again_until_the_model_changes(
    model: Any, tmp_path: Path, cache: Path
) -> None:
    folder = str(tmp_path / "model")
    model.save_pretrained(folder)
    cold = logits(loading.load(wanted(folder, weights="int8")).runner)
    (kept,) = (cache / "packed").iterdir()
    assert torch.equal(logits(loading.load(wanted(folder, weights="int8")).runner), cold)
    assert list((cache / "packed").iterdir()) == [kept]
    fused.model("qwen3", seed=2).save_pretrained(folder)
    assert not torch.equal(logits(loading.load(wanted(folder, weights="int8")).runner), cold)


def test_packed_weights_that_are_damaged_are_made_again(folder: str, cache: Path) -> None:
    cold = logits(loading.load(wanted(folder, weights="int4")).runner)
    (kept,) = (cache / "packed").iterdir()
    kept.write_bytes(kept.read_bytes()[:1000])
    assert torch.equal(logits(loading.load(wanted(folder, weights="int4")).runner), cold)
    assert kept.stat().st_size > 1000


def test_of_packed_files_the_latest_used_are_kept(folder: str, cache: Path) -> None:
    loading.load(wanted(folder, weights="int4"))
    (used,) = (cache / "packed").iterdir()
    os.utime(used, (0, 0))
    others = [cache / "packed" / f"{age}.safetensors" for age in range(1, 9)]
    for age, path in enumerate(others, 1):
        path.touch()
        os.utime(path, (age, age))
    loading.load(wanted(folder, weights="int4"))  # used again
    loading.load(wanted(folder, weights="int8"))  # one file more
    kept = set((cache / "packed").iterdir())
    assert len(kept) == 8
    assert used in kept
    assert not {others[0], others[1]} & kept


def test_packed_weights_that_cannot_be_kept_keep_no_model_from_loading(folder: str, cache: Path) -> None:
    (cache / "packed").touch()
    assert loading.load(wanted(folder, weights="int4")).backend == "fused"


@pytest.mark.embedded
def test_the_embedded_model_is_int4_as_it_is() -> None:
    loaded = loading.load(wanted(store.EMBEDDED, layers=1))
    assert (loaded.weights, loaded.backend) == ("int4", "fused")
