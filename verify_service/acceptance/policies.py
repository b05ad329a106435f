"""Lossy policies by name, their parameters checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from pydantic import TypeAdapter, ValidationError

from common.errors import ConfigError, InvalidRequest
from common.types import LOSSLESS, PolicyChoice
from verify_service.acceptance.block import Run
from verify_service.acceptance.consensus import Consensus
from verify_service.acceptance.kl import Divergence
from verify_service.acceptance.lossy import Policy
from verify_service.acceptance.semantic import Semantic, Similarity, TokenText
from verify_service.acceptance.strict import Strict
from verify_service.acceptance.typical import Typical

_POLICIES: Mapping[str, Any] = {
    kind.name: kind for kind in (Strict, Run, Divergence, Semantic, Typical, Consensus)
}
NAMES = tuple(_POLICIES)
_FIELD = "speculation.policy"


@dataclass(frozen=True, slots=True)
class Resources:
    """What a policy may need beside its parameters.

    ``similarity`` loads what it needs; it raises ConfigError where that is missing.
    """

    text: TokenText
    similarity: Callable[[], Similarity]


def make(choice: PolicyChoice, resources: Resources) -> Policy | None:
    """None: lossless.

    Raises:
        InvalidRequest: for a name that is not known, or naming the parameter that is wrong.
    """
    if choice.name == LOSSLESS:
        _refuse_unknown(choice, set())
        return None
    kind = _POLICIES.get(choice.name)
    if kind is None:
        known = ", ".join((LOSSLESS, *NAMES))
        raise InvalidRequest(f"{_FIELD}: {choice.name!r} is none of {known}", field=_FIELD)
    given = _resources(choice.name, kind, resources)
    _refuse_unknown(choice, {field.name for field in fields(kind)} - given.keys())
    try:
        policy: Policy = TypeAdapter(kind).validate_python({**choice.parameters, **given})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = f"{_FIELD}.{first['loc'][0]}"
        raise InvalidRequest(f"{field}: {first['msg']}", field=field) from None
    return policy


def _resources(name: str, kind: Any, resources: Resources) -> dict[str, Any]:
    """Those of the policy's fields that are no parameters."""
    if kind is not Semantic:
        return {}
    try:
        return {"similarity": resources.similarity(), "text": resources.text}
    except ConfigError as error:
        raise InvalidRequest(f"{_FIELD}: {name} {error.message}", field=_FIELD) from None


def _refuse_unknown(choice: PolicyChoice, known: set[str]) -> None:
    for name in choice.parameters:
        if name not in known:
            field = f"{_FIELD}.{name}"
            told = f"its parameters are {', '.join(sorted(known))}" if known else "it has no parameters"
            raise InvalidRequest(f"{field}: {choice.name} does not know it; {told}", field=field)
