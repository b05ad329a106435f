"""What a validator is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol


class Validator(Protocol):
    """Vets what is drafted for one answer, in one thread; it may remember what the answer was before."""

    def longest(self, text: str, start: int, ends: Sequence[int]) -> int:
        """How many of the drafted tokens may stay, one after the other.

        What is unfinished is not wrong. An answer that is wrong before ``start`` is not the draft's doing,
        and nothing is cut any more.

        Args:
            text: the whole answer so far, then the drafted text. Calls for one answer begin with ever more of
                it; drafted text comes and goes.
            start: where the drafted text begins.
            ends: where the text of each drafted token ends; a token that completes no character ends where
                the one before it does.
        """


Make = Callable[[Mapping[str, str]], Validator]
"""From options, as the request has them, to a validator for one answer; raises WrongOption."""


class WrongOption(ValueError):
    """An option that is not known, missing, or not what it must be."""

    def __init__(self, option: str, rule: str) -> None:
        super().__init__(rule)
        self.option = option
        self.rule = rule


def only(options: Mapping[str, str], *known: str) -> None:
    """Raises WrongOption for an option that is not among the known ones."""
    for option in options:
        if option not in known:
            listed = ", ".join(known) if known else "none"
            raise WrongOption(option, f"is not known; there are: {listed}")


def whole(options: Mapping[str, str]) -> bool:
    """Whether the whole answer is meant, and not what stands in fenced blocks."""
    asked = options.get("whole", "false")
    if asked not in ("true", "false"):
        raise WrongOption("whole", "must be true or false")
    return asked == "true"


def stays(ends: Sequence[int], limit: int) -> int:
    """How many tokens end at ``limit`` or before."""
    return next((count for count, end in enumerate(ends) if end > limit), len(ends))
