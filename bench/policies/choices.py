"""Policies as a command line has them: ``kl``, ``kl:delta=0.3,cap=0.5``."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from common.errors import InvalidRequest
from common.types import LOSSLESS, PolicyChoice
from verify_service.acceptance import embedding, policies


@dataclass(frozen=True)
class Choice:
    """``label``: as it was written."""

    label: str
    name: str
    parameters: dict[str, float]

    @classmethod
    def parse(cls, text: str) -> Choice:
        """A type for ``argparse``."""
        name, _, rest = text.partition(":")
        pairs = [part.partition("=") for part in rest.split(",") if part]
        try:
            parameters = {key: float(value) for key, _, value in pairs}
            policies.make(PolicyChoice(name, parameters), policies.Resources(str, embedding.load_words))
        except InvalidRequest as error:
            raise argparse.ArgumentTypeError(error.message) from None
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text}: parameters are numbers, as in kl:delta=0.3") from None
        return cls(text, name, parameters)

    @property
    def body(self) -> dict[str, Any]:
        """What a request says."""
        return {"policy": {"name": self.name, **self.parameters}}


LOSSLESS_CHOICE = Choice(LOSSLESS, LOSSLESS, {})
DEFAULTS = [LOSSLESS_CHOICE, *(Choice(name, name, {}) for name in policies.NAMES)]
