"""Which sources guess in a measured stack, as it is asked for: ``none``, ``ngram``, ``ngram,eagle``.

Whatever else the services are told comes from the caller's own variables, ``TANDEM_DRAFT_*`` and
``TANDEM_VERIFY_*``.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common.config import load
from common.errors import ConfigError
from draft_service.config import Config
from draft_service.heads import running
from draft_service.heads.shape import Kind
from tandem.stack import Draft, model

NONE = "none"
_KINDS: tuple[Kind, ...] = ("eagle", "medusa")
_LAYERS = "TANDEM_VERIFY_HIDDEN_LAYERS"


@dataclass(frozen=True)
class Setup:
    """``sources``: as ``TANDEM_DRAFT_SOURCE`` has them; ``none``: no drafts."""

    sources: str

    @classmethod
    def parse(cls, text: str) -> Setup:
        """A type for ``argparse``."""
        try:
            if text != NONE:
                _config(text)
        except ConfigError as error:
            raise argparse.ArgumentTypeError(error.message) from None
        return cls(text)

    @property
    def drafts(self) -> bool:
        return self.sources != NONE

    def pools(self, reached_at: str = "") -> dict[str, Draft]:
        """What ``LocalStack`` takes; ``reached_at`` as in ``Draft``."""
        if not self.drafts:
            return {}
        environment = {"TANDEM_DRAFT_SOURCE": self.sources}
        return {self.sources.replace(",", "-"): Draft(environment, reached_at=reached_at)}

    def environment(self) -> dict[str, str]:
        """That the verify service sends the hidden states that the heads read, where nobody chose others.

        Raises:
            ConfigError: for a head that is not there.
        """
        kinds = [kind for kind in _KINDS if kind in self.sources.split(",")]
        if not kinds or _LAYERS in os.environ:
            return {}
        config = _config(self.sources)
        layers = {layer for kind in kinds for layer in running.find(config, kind).shape.layers}
        return {_LAYERS: json.dumps(sorted(layers))}

    def speculation(self, block_size: int, tree_width: int = 1) -> Mapping[str, Any]:
        """What a request says."""
        return {"block_size": block_size, "tree_width": tree_width} if self.drafts else {"enabled": False}


def _config(sources: str) -> Config:
    given = {name: value for name, value in os.environ.items() if name.startswith("TANDEM_DRAFT_")}
    return load(Config, "draft", {"TANDEM_DRAFT_MODEL": model(), **given, "TANDEM_DRAFT_SOURCE": sources})
