"""Validators by name, and what they let stand of a text that comes character by character."""

from __future__ import annotations

from common.types import ValidatorChoice
from verify_service.validators import registry
from verify_service.validators.base import Validator


def made(name: str, **options: str) -> Validator:
    return registry.make(ValidatorChoice(name, options))


def stands(validator: Validator, text: str, start: int = 0) -> str:
    """The longest beginning of ``text`` that passes, drafted in single characters from ``start``."""
    ends = range(start + 1, len(text) + 1)
    return text[: start + validator.longest(text, start, ends)]


def assert_never_cut(name: str, text: str, step: int = 7, **options: str) -> None:
    """Grow the text a character at a time, with a few more drafted, and look at each beginning anew."""
    growing = made(name, **options)
    for start in range(len(text)):
        drafted = text[: start + step]
        assert stands(growing, drafted, start) == drafted
        assert stands(made(name, **options), text[: start + 1]) == text[: start + 1]
