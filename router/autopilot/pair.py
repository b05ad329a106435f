"""What the autopilot knows of one class of prompts with one draft pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from common.feedback import Drafted, FeedbackRecord
from router.autopilot.limits import Limits
from router.autopilot.rules import Finding, Trouble
from router.autopilot.windows import Sample, Window

_FIRST_LIMIT = 4
_LOST = (Trouble.USELESS, Trouble.SLOWER, Trouble.QUALITY)


@dataclass(slots=True)
class Trial:
    """A limit that is in force to see whether it helps. ``rate`` and ``before`` are of the time without."""

    rate: float | None
    before: int


@dataclass(slots=True)
class Rest:
    """
    Attributes:
        acceptance: in shadow it must come up to this.
        until_ms: when it is tried again whatever shadow shows; 0: never.
    """

    reason: str
    acceptance: float
    until_ms: int = 0


@dataclass(slots=True)
class Pair:
    """
    Attributes:
        used, watched: answers that it drafted, and those in shadow, since the last action.
        good: acceptance while it paid; None: not seen yet.
        largest_block: most guesses of a block; 0: no limit.
        held: answers for which it is left alone.
        patience: trials that did not help; each doubles the time.
        trial: of shorter blocks, under way; None: none is.
        rest: None: it is used.
        rests: times in a row that it was set to rest for more than uselessness.
        since_ms: when something was last done about it; what was seen before says nothing of the time after.
        asked: answers for which no training is asked for again.
    """

    used: Window = field(default_factory=Window)
    watched: Window = field(default_factory=Window)
    good: float | None = None
    largest_block: int = 0
    trial: Trial | None = None
    rest: Rest | None = None
    rests: int = 0
    since_ms: int = 0
    held: int = 0
    patience: int = 0
    asked: int = 0

    @property
    def window(self) -> Window:
        """What is seen of it now."""
        return self.watched if self.rest else self.used

    def add(self, sample: Sample, shadow: bool) -> None:
        if sample.created_ms < self.since_ms:
            return
        (self.watched if shadow else self.used).add(sample)
        self.held = max(self.held - 1, 0)
        self.asked = max(self.asked - 1, 0)

    def begin(self, now_ms: int) -> None:
        """Something was done about it."""
        self.since_ms = now_ms
        self.used, self.watched = Window(), Window()

    def lost(self, found: Sequence[Finding]) -> Finding | None:
        """For which it is to be given up, if for any. Blocks that cannot be shorter, neither."""
        grave = next((finding for finding in found if finding.trouble in _LOST), None)
        if grave is None and self.largest_block == 1:
            grave = next((finding for finding in found if finding.trouble is not Trouble.CONSISTENCY), None)
        return grave

    def shorter(self, finding: Finding) -> int:
        """The next limit to try."""
        if finding.trouble is Trouble.TRUNCATION and finding.position:
            return min(finding.position, self.largest_block or finding.position)
        return max(1, self.largest_block // 2) if self.largest_block else _FIRST_LIMIT

    def set_to_rest(self, finding: Finding, now_ms: int, limits: Limits) -> None:
        acceptance = self.used.last(limits.fewest).acceptance or 0.0
        wanted = max(acceptance + limits.returns, limits.recovers * (self.good or 0.0))
        until_ms = 0
        if finding.trouble is not Trouble.USELESS:
            seconds = min(limits.rest_seconds * 2**self.rests, limits.longest_rest_seconds)
            until_ms, self.rests = now_ms + round(seconds * 1000), self.rests + 1
        self.rest = Rest(str(finding), min(wanted, 1.0), until_ms)
        self.largest_block, self.trial = 0, None
        self.begin(now_ms)

    def may_return(self, now_ms: int, limits: Limits) -> str:
        """Why its rest is over; empty: it is not."""
        if self.rest is None:
            return ""
        latest = self.watched.last(limits.fewest_watched)
        seen = latest.acceptance
        if len(latest) >= limits.fewest_watched and seen is not None and seen >= self.rest.acceptance:
            return f"acceptance in shadow {seen:.3g}, at least {self.rest.acceptance:.3g}"
        return "tried again" if 0 < self.rest.until_ms <= now_ms else ""

    def export(self) -> dict[str, Any]:
        """What must outlive a router, as JSON has it."""
        rest = self.rest
        return {
            "good": self.good,
            "largest_block": self.largest_block,
            "rests": self.rests,
            "since_ms": self.since_ms,
            "rest": rest and [rest.reason, rest.acceptance, rest.until_ms],
        }


def first_of(record: FeedbackRecord) -> Drafted | None:
    """Who drafted most of the answer; None: nobody."""
    return max(record.drafts, key=lambda drafted: drafted.blocks, default=None)
