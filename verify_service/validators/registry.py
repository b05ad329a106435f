"""Validators by name. One is only loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from common.errors import InvalidRequest
from common.types import ValidatorChoice
from verify_service.validators.base import Make, Validator, WrongOption

GROUP = "tandem.validators"
FIELD = "speculation.validators"

_HERE = "verify_service.validators"
_BUILT_IN = MappingProxyType(
    {
        "javascript": f"{_HERE}.javascript:JavaScript",
        "json": f"{_HERE}.json:Json",
        "python": f"{_HERE}.python:Python",
        "regex": f"{_HERE}.regex:Regex",
    }
)


@lru_cache(1)
def known() -> Mapping[str, EntryPoint]:
    """What is built in and what installed packages offer; the former cannot be replaced."""
    built_in = {name: EntryPoint(name, place, GROUP) for name, place in _BUILT_IN.items()}
    return {entry.name: entry for entry in entry_points(group=GROUP)} | built_in


def check_name(name: str) -> None:
    """Raises InvalidRequest for a validator that there is not."""
    if name not in known():
        raise InvalidRequest(f"{FIELD}: {name!r} is not among {', '.join(sorted(known()))}", field=FIELD)


def make(choice: ValidatorChoice) -> Validator:
    """A validator for one answer.

    Raises:
        InvalidRequest: naming the option that is wrong.
    """
    check_name(choice.name)
    maker: Make = known()[choice.name].load()
    field = f"{FIELD}.{choice.name}"
    try:
        return maker(choice.options)
    except WrongOption as wrong:
        raise InvalidRequest(
            f"{field}.{wrong.option} {wrong.rule}", field=f"{field}.{wrong.option}"
        ) from None
    except ValueError as wrong:
        raise InvalidRequest(f"{field}: {wrong}"[:300], field=field) from None
