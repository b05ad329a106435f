"""Configuration from the environment: parsed once, checked whole, named when wrong."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from common.errors import ConfigError

T = TypeVar("T")

Port = Annotated[int, Field(ge=0, le=65_535)]
Positive = Annotated[int, Field(ge=1)]
RedisUrl = Annotated[str, Field(pattern=r"^((rediss?|unix)://.+)?$")]
"""Empty: no Redis."""
LogLevel = Literal["debug", "info", "warning", "error"]


def load(config_type: type[T], service: str, environ: Mapping[str, str] = os.environ) -> T:
    """Build a frozen dataclass from the variables ``TANDEM_<SERVICE>_<FIELD>``.

    A field that is not a plain string, number or boolean is written as JSON.

    Raises:
        ConfigError: for a value that does not parse or fails its constraint, or a variable with the
            service's prefix that no field claims; the message names the variable.
    """
    prefix = f"TANDEM_{service.upper()}_"
    fields = {f"{prefix}{field.name.upper()}": field for field in dataclasses.fields(config_type)}  # type: ignore[arg-type]
    given = {name: value for name, value in environ.items() if name.startswith(prefix)}
    for name in given:
        if name not in fields:
            raise ConfigError(f"unknown variable {name}; known are {', '.join(sorted(fields))}", field=name)
    hints = get_type_hints(config_type)
    values = {
        fields[name].name: text if hints[fields[name].name] is str else _decode(name, text)
        for name, text in given.items()
    }
    try:
        return TypeAdapter(config_type).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        location = str(first["loc"][0]) if first["loc"] else ""
        name = f"{prefix}{location.upper()}"
        raise ConfigError(f"{name}: {first['msg']}", field=name) from None


def load_or_exit(config_type: type[T], service: str) -> T:
    """``load`` for a ``__main__``: prints the error and exits with status 2."""
    try:
        return load(config_type, service)
    except ConfigError as error:
        print(f"{service}: {error.message}", file=sys.stderr)
        sys.exit(2)


def _decode(name: str, text: str) -> Any:
    if not text.startswith(("[", "{")):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{name}: not JSON: {error}", field=name) from None
