"""Which module makes a source of which name; only those that are asked for are imported."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from draft_service.config import Config
    from draft_service.sources.base import Source

MODULES: Mapping[str, str] = MappingProxyType(
    {
        "cascade": "draft_service.sources.cascade",
        "model": "draft_service.sources.model",
        "ngram": "draft_service.sources.ngram",
        "eagle": "draft_service.sources.eagle",
        "medusa": "draft_service.sources.medusa",
        "suffix": "draft_service.sources.suffix",
        "retrieval": "draft_service.sources.retrieval",
        "rules": "draft_service.sources.rules",
        "self": "draft_service.sources.self_draft",
    }
)
"""Each has ``make(config, folder) -> Source``; ``folder`` holds the target's files."""

_POOL = "draft_service.sources.pool"


def make(config: Config, folder: str) -> Source:
    """The configured source; of several names a pool."""
    if len(config.sources) == 1:
        return make_one(config.sources[0], config, folder)
    source: Source = importlib.import_module(_POOL).make(config, folder)
    return source


def make_one(name: str, config: Config, folder: str) -> Source:
    source: Source = importlib.import_module(MODULES[name]).make(config, folder)
    return source
