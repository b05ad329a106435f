"""Self-speculation: the target's first layers with its own head (Zhang et al. 2023, "Draft & Verify")."""

from __future__ import annotations

from draft_service.config import Config
from draft_service.sources import engines
from draft_service.sources.engines import DraftModel
from draft_service.sources.paged import PagedSource


def make(config: Config, folder: str) -> PagedSource:
    return load(config).source("self", config.prefill_tokens)


def load(config: Config) -> DraftModel:
    loaded = engines.load(config, config.model, layers=config.layers)
    return DraftModel(loaded.runner, engines.num_blocks(config), f"first-{config.layers}-layers")
