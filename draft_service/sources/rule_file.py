"""The rules file: what a text that ends in one way goes on with."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import regex

from common.errors import ConfigError

VARIABLE = "TANDEM_DRAFT_RULES"
_KEYS = {"name", "pattern", "continuation"}
_REFERENCE = regex.compile(r"\\(?:g<(\w+)>|(\d))")
_SECONDS = 0.002  # longest one expression may take; then the rule says nothing


@dataclass(frozen=True, slots=True)
class Rule:
    """``pattern`` matches at the end of the text; ``continuation`` may hold groups, ``\\1`` or ``\\g<x>``."""

    name: str
    pattern: Any
    continuation: str

    def after(self, tail: str) -> str:
        """What should follow; empty: the rule does not apply."""
        try:
            match = self.pattern.search(tail, timeout=_SECONDS)
        except TimeoutError:
            return ""
        return _expanded(self.continuation, match) if match else ""


def load_rules(path: str) -> tuple[Rule, ...]:
    """The rules of a TOML file of ``[[rule]]`` tables, or the packaged ones where ``path`` is empty.

    Raises:
        ConfigError: naming the variable, the file and the rule at fault.
    """
    try:
        document = tomllib.loads(_read(path))
    except (OSError, ValueError) as error:
        raise _bad(path, str(error)) from None
    listed = document.get("rule")
    if not isinstance(listed, list) or len(document) > 1:
        raise _bad(path, "the file is a list of [[rule]] tables and nothing else")
    return tuple(_rule(path, number, entry) for number, entry in enumerate(listed, start=1))


def _read(path: str) -> str:
    if path:
        return Path(path).read_text(encoding="utf-8")
    return resources.files("draft_service.sources").joinpath("rules.toml").read_text(encoding="utf-8")


def _rule(path: str, number: int, entry: Any) -> Rule:
    where = f"rule {entry.get('name', number)}" if isinstance(entry, dict) else f"rule {number}"
    if not isinstance(entry, dict) or set(entry) != _KEYS:
        raise _bad(path, f"{where}: a rule has the keys {', '.join(sorted(_KEYS))} and no others")
    if not all(isinstance(value, str) and value for value in entry.values()):
        raise _bad(path, f"{where}: every value is a string that is not empty")
    try:
        pattern = regex.compile(rf"(?:{entry['pattern']})\Z")
    except regex.error as error:
        raise _bad(path, f"{where}, key pattern: {error}") from None
    for name, digit in _REFERENCE.findall(entry["continuation"]):
        if int(digit or 0) > pattern.groups or (name and name not in pattern.groupindex):
            raise _bad(path, f"{where}, key continuation: the pattern has no group {name or digit}")
    return Rule(entry["name"], pattern, entry["continuation"])


def _expanded(continuation: str, match: Any) -> str:
    """With the groups in place of what names them; one that took no part is empty."""
    return str(_REFERENCE.sub(lambda named: match[named[1] or int(named[2])] or "", continuation))


def _bad(path: str, what: str) -> ConfigError:
    return ConfigError(f"{VARIABLE}: {path or 'the packaged rules'}: {what}", field=VARIABLE)
