"""What is wrong with a draft, from its window and that of plain answers. Pure."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from router.autopilot.limits import Limits
from router.autopilot.windows import Window


class Trouble(enum.StrEnum):
    USELESS = "useless"
    SLOWER = "slower"
    QUALITY = "quality"
    ACCEPTANCE = "acceptance"
    TRUNCATION = "truncation"
    CONSISTENCY = "consistency"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Finding:
    """``value`` beyond ``limit``. ``position``: of the first guess that fails too often."""

    trouble: Trouble
    value: float
    limit: float
    position: int = 0

    def __str__(self) -> str:
        where = f" at position {self.position}" if self.trouble is Trouble.TRUNCATION else ""
        return f"{self.trouble.value}{where} {self.value:.3g}, limit {self.limit:.3g}"


def speedup(drafted: Window, plain: Window, limits: Limits) -> tuple[float, float] | None:
    """The rate beside that of plain answers, and the standard error of its logarithm; None: not known."""
    ours, theirs = drafted.rate, plain.rate
    if ours is None or theirs is None or plain.rated < limits.fewest_plain:
        return None
    error = math.sqrt(drafted.spread**2 / drafted.rated + plain.spread**2 / plain.rated)
    return ours / theirs, error


def findings(drafted: Window, plain: Window, limits: Limits) -> list[Finding]:
    """The gravest first; empty: nothing is known against the draft, or it pays.

    That it became useless shows in its last answers; what it is worth, in all of them.
    """
    if drafted.drafted < limits.fewest:
        return []
    compared = speedup(drafted, plain, limits)
    acceptance = drafted.last(limits.fewest).acceptance
    found = []
    if acceptance is not None and acceptance < limits.useless:
        found.append(Finding(Trouble.USELESS, acceptance, limits.useless))
    if compared and compared[0] * math.exp(2 * compared[1]) < limits.quality:
        found.append(Finding(Trouble.SLOWER, compared[0], limits.quality))
    effective = _effective(drafted, plain, compared[0], limits) if compared else 1.0
    if compared and effective < limits.quality <= compared[0]:
        found.append(Finding(Trouble.QUALITY, effective, limits.quality))
    if found or compared is None or compared[0] * math.exp(compared[1]) >= limits.pays:
        return found
    return _warnings(drafted, limits)


def _effective(drafted: Window, plain: Window, ratio: float, limits: Limits) -> float:
    """The ratio of rates, less what the text lost: a text that the target finds half as likely by token is
    worth half. Where too few were sampled, or drafted text is likelier, nothing was lost."""
    if drafted.perplexity is None or plain.perplexity is None:
        return ratio
    if min(drafted.scored, plain.scored) < limits.fewest_sampled:
        return ratio
    return ratio * min(1.0, plain.perplexity / drafted.perplexity)


def _warnings(drafted: Window, limits: Limits) -> list[Finding]:
    """Of a draft that is not likely to pay."""
    found = []
    acceptance, consistency = drafted.acceptance, drafted.consistency
    if acceptance is not None and acceptance < limits.acceptance:
        found.append(Finding(Trouble.ACCEPTANCE, acceptance, limits.acceptance))
    cut = next((place for place, share in enumerate(drafted.truncation) if share > limits.truncation), None)
    if cut is not None:
        found.append(Finding(Trouble.TRUNCATION, drafted.truncation[cut], limits.truncation, cut))
    compared = drafted.compared >= limits.fewest_sampled
    if compared and consistency is not None and consistency < limits.consistency:
        found.append(Finding(Trouble.CONSISTENCY, consistency, limits.consistency))
    late = drafted.late(limits.first_token_seconds)
    if late > limits.late:
        found.append(Finding(Trouble.LATE, late, limits.late))
    return found
