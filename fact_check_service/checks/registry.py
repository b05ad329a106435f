"""Checks by name: the built-in ones, and those of other packages."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points

from common.errors import ConfigError
from fact_check_service.checks.base import Check
from fact_check_service.config import Config

BUILT_IN = ("rules", "prompt", "knowledge", "wikidata")
ENTRY_POINTS = "tandem.fact_checks"
"""Of functions that make a check from the configuration."""

_FIELD = "TANDEM_FACT_CHECK_CHECKS"


def make_all(config: Config) -> list[Check]:
    """In the order of ``config.checks``.

    Raises:
        ConfigError: for a name that is not known, or what a check lacks.
    """
    return [_make(name, config) for name in config.checks]


def _make(name: str, config: Config) -> Check:
    others = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in (*BUILT_IN, *others):
        known = ", ".join([*BUILT_IN, *sorted(others)])
        raise ConfigError(f"{_FIELD}: {name!r} is none of {known}", field=_FIELD)
    make = _built_in(name) if name in BUILT_IN else others[name].load()
    made: Check = make(config)
    return made


def _built_in(name: str) -> Callable[[Config], Check]:
    made: Callable[[Config], Check] = import_module(f"fact_check_service.checks.{name}").make
    return made
