"""The documentation names every variable and every request field, and no others."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from draft_service.config import Config as DraftConfig
from fact_check_service.config import Config as FactCheckConfig
from gateway.config import Config as GatewayConfig
from gateway.schema import ChatBody, CompletionBody, Speculation
from router.config import RouterConfig
from verify_service.config import Config as VerifyConfig

_DOCS = Path(__file__).parents[2] / "docs"
_CONFIGS: dict[str, Any] = {
    "GATEWAY": GatewayConfig,
    "ROUTER": RouterConfig,
    "VERIFY": VerifyConfig,
    "DRAFT": DraftConfig,
    "FACT_CHECK": FactCheckConfig,
}


def documented_variables(service: str) -> set[str]:
    """The names in the first column of the service's table."""
    text = (_DOCS / "configuration.md").read_text()
    section = text.split(f"`TANDEM_{service}_*`")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`[A-Z_`, ]+`) \|", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([A-Z_]+)`", cell)}


@pytest.mark.parametrize("service", _CONFIGS)
def test_every_variable_is_documented_and_no_other(service: str) -> None:
    fields = {field.name.upper() for field in dataclasses.fields(_CONFIGS[service])}
    assert documented_variables(service) == fields


def test_every_request_field_is_documented() -> None:
    text = (_DOCS / "api.md").read_text()
    fields = {*ChatBody.model_fields, *CompletionBody.model_fields}
    fields |= {f"speculation.{name}" for name in Speculation.model_fields}
    missing = [name for name in fields - {"speculation", "stream_options"} if f"`{name}`" not in text]
    assert missing == []
