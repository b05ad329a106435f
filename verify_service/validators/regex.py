"""The beginning of a match of a regular expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common.constraint import Constraint, ConstraintKind
from verify_service.validators.base import WrongOption, only, stays
from verify_service.validators.growing import GrowingText


class Regex:
    """Options: ``pattern``, which the whole answer is to match."""

    def __init__(self, options: Mapping[str, str]) -> None:
        only(options, "pattern")
        if "pattern" not in options:
            raise WrongOption("pattern", "is required")
        self._text = GrowingText(
            Constraint(ConstraintKind.REGEX, options["pattern"], "speculation.validators.regex.pattern")
        )

    def longest(self, text: str, start: int, ends: Sequence[int]) -> int:
        length, _ = self._text.allowed(text.encode(), len(text[:start].encode()))
        limit = len(text.encode()[:length].decode(errors="ignore"))
        return len(ends) if limit < start else stays(ends, limit)
