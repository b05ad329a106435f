"""A smaller language model of its own, next to the target (Leviathan et al. 2023)."""

from __future__ import annotations

from pathlib import Path

from common.errors import ConfigError
from common.model import loading, store
from common.model.batch import Runner
from common.model.tokenizer import Tokenizer
from draft_service.config import Config
from draft_service.sources import engines, head
from draft_service.sources.base import Source
from draft_service.sources.engines import DraftModel
from draft_service.sources.reencode import ReencodingSource

_VARIABLE = "TANDEM_DRAFT_DRAFT_MODEL"


def make(config: Config, folder: str) -> Source:
    own = store.resolve(config.draft_model)
    ours, theirs = _tokenizer(own), _tokenizer(folder)
    if ours.fingerprint == theirs.fingerprint:
        return load(config, folder).source("model", config.prefill_tokens)
    inner = _load(config, _size(own)).source("model", config.prefill_tokens)
    return ReencodingSource(inner, _bytewise(ours, own), _bytewise(theirs, folder))


def load(config: Config, folder: str) -> DraftModel:
    """The draft model over the target's vocabulary.

    Raises:
        ConfigError: where its tokenizer is another.
    """
    own = store.resolve(config.draft_model)
    if _tokenizer(own).fingerprint != _tokenizer(folder).fingerprint:
        raise ConfigError(f"{_VARIABLE}: {config.draft_model} has another tokenizer", field=_VARIABLE)
    return _load(config, _size(folder))


def _load(config: Config, size: int) -> DraftModel:
    """With logits of ``size`` tokens."""
    own = store.resolve(config.draft_model)
    last = store.load_config(own).num_hidden_layers
    trimmed = bool(config.vocabulary_file)
    loaded = engines.load(config, config.draft_model, hidden_layers=[last] if trimmed else ())
    runner = _fitted(loaded, size)
    if trimmed:
        runner = _trimmed(config, loaded, runner, size)
    version = Path(config.draft_model).stem[:64]
    return DraftModel(runner, engines.num_blocks(config), version, int(loaded.config.max_position_embeddings))


def _fitted(loaded: loading.Loaded, size: int) -> Runner:
    own_size = int(loaded.config.vocab_size)
    return loaded.runner if own_size == size else head.FittedRunner(loaded.runner, own_size, size)


def _trimmed(config: Config, loaded: loading.Loaded, runner: Runner, size: int) -> Runner:
    kept = head.read_kept(config.vocabulary_file, min(int(loaded.config.vocab_size), size))
    rows = head.trimmed_head(loaded.folder, kept, loaded.weights, loaded.device, engines.threads(config))
    return head.TrimmedRunner(runner, rows, kept, size)


def _size(folder: str) -> int:
    return int(store.load_config(folder).vocab_size)


def _tokenizer(folder: str) -> Tokenizer:
    return Tokenizer(store.load_tokenizer(folder), store.eos_token_ids(folder))


def _bytewise(tokenizer: Tokenizer, folder: str) -> Tokenizer:
    """Raises ConfigError where the bytes of the tokens cannot be told: then text cannot be carried over."""
    if tokenizer.bytewise is None:
        raise ConfigError(f"{_VARIABLE}: the tokens of {folder} cannot be told as bytes", field=_VARIABLE)
    return tokenizer
