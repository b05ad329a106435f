"""A smaller model as a source: loaded by name, its head trimmed or fitted, its text re-encoded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from common.allowed import Allowed
from common.errors import ConfigError
from common.types import Mode, SamplingParams
from draft_service.config import Config
from draft_service.session import Session
from draft_service.sources import head, registry
from draft_service.sources.base import Guess, Source
from draft_service.sources.cascade import CascadeSource
from draft_service.sources.engines import DraftModel
from draft_service.sources.paged import PagedSource
from draft_service.sources.pool import BestSource, MergingSource
from draft_service.sources.reencode import ReencodingSource
from tests.support.models import reference_greedy, reference_logits, save_tiny, tiny_model
from tests.unit.draft.paged import VOCABULARY, PagedRunner, logits_after
from tests.unit.draft.sessions import opened

PROMPT = [5, 6, 7, 8, 5, 6]
KEPT = list(range(3, 30, 2))
SHAPE = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}  # one that the kernel runs


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny(tmp_path_factory.mktemp("models") / "target", seed=1, layers=3)


@pytest.fixture(scope="module")
def smaller(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny(tmp_path_factory.mktemp("models") / "smaller", seed=2, **SHAPE)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny(tmp_path_factory.mktemp("models") / "foreign", seed=2, vocabulary=96)


def config(target: str, smaller: str, source: str = "model", **changes: Any) -> Config:
    fields = {"weights": "float32", "device": "cpu", "kv_tokens": 512, "threads": 1} | changes
    return Config(source=source, model=target, draft_model=smaller, layers=2, **fields)  # type: ignore[arg-type]


def guess(source: Source, session: Session) -> Guess:
    (made,) = source.propose([session])
    assert made is not None
    return made


@pytest.mark.parametrize("backend", ["general", "fused"])
def test_greedy_guesses_are_the_smaller_models_own(target: str, smaller: str, backend: str) -> None:
    source = registry.make(config(target, smaller, backend=backend), target)
    assert (source.name, source.model_version) == ("model", "smaller")
    made = guess(source, opened(tokens=PROMPT, block_size=6))
    assert list(made.token_ids) == reference_greedy(tiny_model(2, attention="sdpa", **SHAPE), PROMPT, 6)


@pytest.mark.parametrize("weights", ["float32", "int8"])
@pytest.mark.parametrize("backend", ["general", "fused"])
def test_a_trimmed_head_says_the_same_of_the_tokens_it_keeps(
    target: str, smaller: str, tmp_path: Path, backend: str, weights: str
) -> None:
    path = tmp_path / "kept.json"
    path.write_text(json.dumps(KEPT))
    trimmed = config(target, smaller, backend=backend, weights=weights, vocabulary_file=str(path))
    session = opened(tokens=PROMPT, mode=Mode.REJECTION, sampling=SamplingParams(), block_size=1)
    (q,) = guess(registry.make(trimmed, target), session).distributions
    assert set(q.token_ids) <= set(KEPT)
    kept = reference_logits(tiny_model(2, attention="sdpa", **SHAPE), PROMPT)[-1][KEPT].softmax(-1)
    expected = dict(zip(KEPT, kept.tolist(), strict=True))
    got = dict(zip(q.token_ids, q.probabilities, strict=True))
    assert got == pytest.approx(expected, abs=1e-4 if weights == "float32" else 0.1)


def test_a_vocabulary_may_be_a_tensor(tmp_path: Path) -> None:
    path = tmp_path / "kept.safetensors"
    save_file({"ids": torch.tensor([9, 2, 9], dtype=torch.int32)}, path)
    assert head.read_kept(str(path), 10).tolist() == [2, 9]


@pytest.mark.parametrize("content", ["[]", "[1, 64]", "[-1]", "[1.5]", "[true]", "{}", "no"])
def test_a_file_that_names_no_tokens_is_refused_by_the_name_of_its_variable(
    tmp_path: Path, content: str
) -> None:
    path = tmp_path / "kept.json"
    path.write_text(content)
    for name in (str(path), str(tmp_path / "missing.json"), str(tmp_path / "missing.safetensors")):
        with pytest.raises(ConfigError, match="TANDEM_DRAFT_VOCABULARY_FILE"):
            head.read_kept(name, 64)


def test_a_file_of_floats_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kept.safetensors"
    save_file({"ids": torch.ones(3)}, path)
    with pytest.raises(ConfigError, match="integers"):
        head.read_kept(str(path), 64)


def test_a_trimmed_head_that_may_say_nothing_guesses_nothing(
    target: str, smaller: str, tmp_path: Path
) -> None:
    """A grammar may leave only tokens that the head does not have."""
    path = tmp_path / "kept.json"
    path.write_text("[3]")
    source = registry.make(config(target, smaller, vocabulary_file=str(path)), target)
    for mode in Mode:
        params = SamplingParams(temperature=0.7)
        session = opened(mode.value, PROMPT, mode=mode, sampling=params)
        assert set(guess(source, session).token_ids) == {3}
        session.allowed = Allowed(64, {3: 99})
        assert guess(source, session).token_ids == ()


@pytest.mark.parametrize("size", [90, 120])
@pytest.mark.parametrize("mode", Mode)
def test_a_head_of_another_length_is_fitted_to_the_targets(size: int, mode: Mode) -> None:
    fitted = head.FittedRunner(PagedRunner(32), VOCABULARY, size)
    source = DraftModel(fitted, 32, "v").source("model", 64)
    params = SamplingParams(logit_bias={size - 1: 1.0})
    made = guess(source, opened(tokens=[1, 2, 3], mode=mode, sampling=params, block_size=8))
    assert len(made.token_ids) == 8
    assert max(made.token_ids) < min(size, VOCABULARY)
    greedy = guess(source, opened("g", [1, 2, 3], block_size=1))
    assert greedy.token_ids == (int(logits_after([1, 2, 3])[:size].argmax()),)


def test_a_token_that_the_smaller_model_lacks_is_read_as_another() -> None:
    source = DraftModel(head.FittedRunner(PagedRunner(32), VOCABULARY, 120), 32, "v").source("model", 64)
    made = guess(source, opened(tokens=[1, 110, 3], block_size=1))
    assert made.token_ids == (int(logits_after([1, 0, 3]).argmax()),)


def test_a_session_beyond_the_smaller_models_context_gets_no_guesses() -> None:
    source = PagedSource("model", PagedRunner(32), 32, 64, "v", context_length=24)
    assert guess(source, opened("fits", range(20))).token_ids
    assert not guess(source, opened("not", range(21))).token_ids


def test_a_smaller_model_with_another_tokenizer_is_re_encoded(target: str, foreign: str) -> None:
    source = registry.make(config(target, foreign), target)
    assert isinstance(source, ReencodingSource)
    made = guess(source, opened(tokens=PROMPT, block_size=4))
    theirs = reference_greedy(tiny_model(2, attention="sdpa", vocabulary=96), PROMPT, 4)
    known = [token_id < 64 for token_id in theirs]
    assert theirs[0] >= 2
    assert list(made.token_ids[:1]) == (theirs[:1] if known[0] else [])


def test_names_joined_by_commas_make_a_pool(target: str, smaller: str) -> None:
    merging = registry.make(config(target, smaller, "ngram,model"), target)
    best = registry.make(config(target, smaller, "ngram, self", pool="best"), target)
    assert isinstance(merging, MergingSource)
    assert isinstance(best, BestSource)
    assert (merging.name, merging.model_version) == ("pool", "ngram-2+model-smaller")
    assert guess(merging, opened(tokens=PROMPT, tree_width=2)).token_ids


@pytest.mark.parametrize("middle", ["self", "model"])
def test_a_cascade_is_made_of_what_is_configured(target: str, smaller: str, middle: str) -> None:
    source = registry.make(config(target, smaller, "cascade", cascade_middle=middle), target)
    assert isinstance(source, CascadeSource)
    assert source.model_version == f"ngram+{'smaller' if middle == 'model' else 'first-2-layers'}"
    assert len(guess(source, opened(tokens=PROMPT)).token_ids) == 4


def test_a_middle_model_with_another_tokenizer_is_refused(target: str, foreign: str) -> None:
    with pytest.raises(ConfigError, match="TANDEM_DRAFT_DRAFT_MODEL"):
        registry.make(config(target, foreign, "cascade", cascade_middle="model"), target)
