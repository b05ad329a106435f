"""What every source that runs a model needs of configuration, and what a loaded model is to it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from common.model import loading
from common.model.batch import Runner
from common.model.block_manager import BlockManager
from draft_service.config import Config
from draft_service.sources.paged import PagedSource


@dataclass(frozen=True, slots=True)
class DraftModel:
    """
    Attributes:
        num_blocks: of its KV pool.
        context_length: most tokens it may be run on.
    """

    runner: Runner
    num_blocks: int
    model_version: str
    context_length: int = sys.maxsize

    def source(self, name: str, prefill_tokens: int) -> PagedSource:
        return PagedSource(
            name,
            self.runner,
            self.num_blocks,
            prefill_tokens,
            self.model_version,
            context_length=self.context_length,
        )


def num_blocks(config: Config) -> int:
    return BlockManager.blocks_for(config.kv_tokens)


def threads(config: Config) -> int:
    return config.threads or os.cpu_count() or 1


def load(
    config: Config, name: str, layers: int | None = None, hidden_layers: Sequence[int] = ()
) -> loading.Loaded:
    """A model in the configured weights; ``layers`` and ``hidden_layers`` as of ``loading.Wanted``."""
    wanted = loading.Wanted(
        name,
        num_blocks(config),
        threads=threads(config),
        weights=config.weights,
        backend=config.backend,
        device=config.device,
        layers=layers,
        hidden_layers=hidden_layers,
    )
    return loading.load(wanted)
