"""Tables of what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from bench.measure import Rounds, Run


def table(rounds: Rounds) -> str:
    """By group: speed without and with drafts, tokens per verify step, acceptance; then by position."""
    groups = list(dict.fromkeys(run.group for run in rounds.plain))
    lines = [_row("group", "plain tok/s", "drafted tok/s", "speed-up", "tok/step", "acceptance")]
    lines += [_line(rounds, group) for group in groups]
    lines += [_line(rounds, None), "", "acceptance by position: " + _by_position(rounds.drafted)]
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


def _by_position(runs: Sequence[Run]) -> str:
    longest = max(len(run.speculation["drafted_per_position"]) for run in runs)
    shares = []
    for position in range(longest):
        reached = [run.speculation for run in runs if position < len(run.speculation["drafted_per_position"])]
        drafted = sum(stats["drafted_per_position"][position] for stats in reached)
        accepted = sum(stats["accepted_per_position"][position] for stats in reached)
        shares.append(f"{accepted / max(drafted, 1):.2f}")
    return " ".join(shares)


def _phases(rounds: Rounds) -> str:
    return ", ".join(f"{name} {1000 * seconds:.2f}" for name, seconds in rounds.phases.items())


def _row(first: str, *rest: str) -> str:
    return f"{first:16}" + "".join(f"{cell:>15}" for cell in rest)
