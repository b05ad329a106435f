"""Tables of what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from bench.measure import Rounds, Run


def table(rounds: Rounds) -> str:
    """By group: speed without and with drafts, tokens per verify step, acceptance; then by position."""
    groups = list(dict.fromkeys(run.group for run in rounds.plain))
    lines = [_row("group", "plain tok/s", "drafted tok/s", "speed-up", "tok/step", "acceptance")]
    lines += [_line(rounds, group) for group in groups]
    shares = acceptance_by_position([run.speculation for run in rounds.drafted])
    by_position = " ".join(f"{share:.2f}" for share in shares)
    lines += [_line(rounds, None), "", f"acceptance by position: {by_position}"]
    lines += ["", "milliseconds per round: " + _phases(rounds)]
    same = sum(a.text == b.text for a, b in zip(rounds.plain, rounds.drafted, strict=True))
    return "\n".join([*lines, f"answers equal with and without drafts: {same} of {len(rounds.plain)}"])


def against_reference(rounds: Rounds, reference: Sequence[Run], precision: str) -> str:
    """Tokens per second beside transformers', on the same prompts."""
    theirs = _speed(reference)
    ours = {"plain": _speed(rounds.plain), "drafted": _speed(rounds.drafted)}
    ratios = ", ".join(f"{name} {speed:.1f} ({speed / theirs:.2f} x)" for name, speed in ours.items())
    return f"transformers.generate {precision}: {theirs:.1f} tok/s; tandem: {ratios}"


def _line(rounds: Rounds, group: str | None) -> str:
    plain = [run for run in rounds.plain if group in (None, run.group)]
    drafted = [run for run in rounds.drafted if group in (None, run.group)]
    steps = sum(run.speculation["steps"] for run in drafted)
    offered = sum(run.speculation["draft_tokens"] for run in drafted)
    accepted = sum(run.speculation["accepted_tokens"] for run in drafted)
    return _row(
        group or "overall",
        f"{_speed(plain):.1f}",
        f"{_speed(drafted):.1f}",
        f"{_speed(drafted) / _speed(plain):.2f}",
        f"{sum(run.tokens for run in drafted) / max(steps, 1):.2f}",
        f"{accepted / max(offered, 1):.2f}",
    )


def _speed(runs: Sequence[Run]) -> float:
    return sum(run.tokens for run in runs) / sum(run.seconds for run in runs)


def acceptance_by_position(speculations: Sequence[Mapping[str, Any]]) -> list[float]:
    """Of the guesses at each position of a block the part that stood, over several answers' counters."""
    drafted = zip_longest(*(stats["drafted_per_position"] for stats in speculations), fillvalue=0)
    accepted = zip_longest(*(stats["accepted_per_position"] for stats in speculations), fillvalue=0)
    return [sum(stood) / max(sum(made), 1) for stood, made in zip(accepted, drafted, strict=True)]


def _phases(rounds: Rounds) -> str:
    return ", ".join(f"{name} {1000 * seconds:.2f}" for name, seconds in rounds.phases.items())


def _row(first: str, *rest: str) -> str:
    return f"{first:16}" + "".join(f"{cell:>15}" for cell in rest)
