"""Speed beside deviation, by policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench import markdown
from bench.measure import Run


@dataclass(frozen=True)
class Figures:
    """Over all answers under one policy.

    Attributes:
        rate: tokens per second, prefill included.
        per_step: tokens per verify step.
        acceptance: share of the guesses that stood.
        strayed: share of all tokens that the target would not have chosen.
        mean_nkl: of the guesses that stood.
    """

    rate: float
    per_step: float
    acceptance: float
    strayed: float
    mean_nkl: float


def figures(runs: Sequence[Run]) -> Figures:
    tokens = sum(run.tokens for run in runs)
    accepted = _sum(runs, "accepted_tokens")
    deviations = [(run.deviation or {}, run.speculation) for run in runs]
    nkl = sum((d.get("mean_nkl") or 0) * s["accepted_tokens"] for d, s in deviations)
    return Figures(
        rate=tokens / sum(run.seconds for run in runs),
        per_step=tokens / max(_sum(runs, "steps"), 1),
        acceptance=accepted / max(_sum(runs, "draft_tokens"), 1),
        strayed=sum(d.get("strayed_tokens", 0) for d, _ in deviations) / max(tokens, 1),
        mean_nkl=nkl / max(accepted, 1),
    )


def text(found: Mapping[str, Figures]) -> str:
    """``found``: by label; the first one is what the others are compared with."""
    first = next(iter(found.values()))
    header = ["policy", "tok/s", "speed", "tok/step", "acceptance", "strayed", "mean NKL"]
    rows = (
        [
            label,
            f"{one.rate:.1f}",
            f"{one.rate / first.rate:.2f} ×",
            f"{one.per_step:.2f}",
            f"{one.acceptance:.2f}",
            f"{100 * one.strayed:.1f} %",
            f"{one.mean_nkl:.3f}" if one.mean_nkl else "–",
        ]
        for label, one in found.items()
    )
    return markdown.table(header, rows)


def _sum(runs: Sequence[Run], counter: str) -> int:
    return sum(int(run.speculation[counter]) for run in runs)
