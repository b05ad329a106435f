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
        "ngram": "draft_service.sources.ngram",
        "suffix": "draft_service.sources.suffix",
        "retrieval": "draft_service.sources.retrieval",
        "rules": "draft_service.sources.rules",
        "self": "draft_service.sources.self_draft",
    }
)
"""Each has ``make(config, folder) -> Source``; ``folder`` holds the target's files."""


def make(config: Config, folder: str) -> Source:
    """The configured source."""
    source: Source = importlib.import_module(MODULES[config.source]).make(config, folder)
    return source
