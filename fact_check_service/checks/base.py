"""What a check is given and what it says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from fact_check_service.claims import Claim, Verdict, extract
from fact_check_service.dates import dates
from fact_check_service.numbers import quantities
from fact_check_service.sentences import Span

MAX_CHARACTERS = 4_096
"""Only the end of a longer text is looked at: the block stands there."""

EXTRACTORS = (quantities, dates)


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one claim; ``rule`` and ``evidence`` are empty while it is unknown. ``check`` is told by
    ``Checker``."""

    claim: Claim
    verdict: Verdict
    rule: str = ""
    evidence: str = ""
    check: str = ""


class Context:
    """A text whose claims are to be judged; they are looked for once, whatever the checks."""

    def __init__(self, text: str, since: int = 0, prompt: str = "") -> None:
        """
        Args:
            since: sentences that end before this character were judged when they were new.
            prompt: what the text answers.
        """
        self.text = text
        self.since = since
        self.prompt = prompt

    @cached_property
    def sentences(self) -> Sequence[tuple[Span, list[Claim]]]:
        """Those that claim something, with their quantities and dates in the order of the text."""
        start = max(0, len(self.text) - MAX_CHARACTERS)
        return list(extract(self.text, start, EXTRACTORS, self.since))

    @property
    def claims(self) -> Iterator[Claim]:
        return (claim for _, claims in self.sentences for claim in claims)


class Check(Protocol):
    """One way to judge claims.

    Awaited, so that it may look things up; of what it finds what is unknown may be left out. It may find
    claims of its own, such as names.
    """

    name: str

    async def judge(self, context: Context) -> Sequence[Finding]: ...


class Judge(Protocol):
    """All checks together, as a worker needs them."""

    async def check(self, context: Context) -> Sequence[Finding]: ...
