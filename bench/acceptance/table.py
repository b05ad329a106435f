"""Tokens per verify step, by label and group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench import markdown
from bench.acceptance.records import Record
from bench.report import acceptance_by_position

OVERALL = "overall"


def tokens_per_step(labelled: Mapping[str, Sequence[Record]]) -> dict[str, dict[str, float]]:
    """By label, then by group, all answers' tokens by all their steps; over all groups last."""
    return {label: _by_group(records) for label, records in labelled.items()}


def text(labelled: Mapping[str, Sequence[Record]]) -> str:
    """Both tables, and what would make them doubtful."""
    parts = [_means(tokens_per_step(labelled)), _positions(labelled)]
    missed = {label: _sum(records, "missed_waits") for label, records in labelled.items()}
    parts += [f"{label}: {count} waits for a block were given up" for label, count in missed.items() if count]
    return "\n\n".join(part for part in parts if part)


def _by_group(records: Sequence[Record]) -> dict[str, float]:
    groups = dict.fromkeys(record.group for record in records)
    parts = {group: [record for record in records if record.group == group] for group in groups}
    return {group: _mean(part) for group, part in {**parts, OVERALL: records}.items()}


def _mean(records: Sequence[Record]) -> float:
    return sum(record.tokens for record in records) / max(_sum(records, "steps"), 1)


def _means(found: Mapping[str, Mapping[str, float]]) -> str:
    groups = dict.fromkeys(group for means in found.values() for group in means if group != OVERALL)
    columns = [*groups, OVERALL]
    rows = (
        [label, *(f"{means[group]:.2f}" if group in means else "" for group in columns)]
        for label, means in found.items()
    )
    return markdown.table(["tokens per step", *columns], rows)


def _positions(labelled: Mapping[str, Sequence[Record]]) -> str:
    """Only of those that had guesses."""
    shares = {
        label: acceptance_by_position([record.speculation for record in records])
        for label, records in labelled.items()
    }
    longest = max(map(len, shares.values()), default=0)
    rows = [
        [label, _of_guesses(labelled[label]), *(f"{share:.2f}" for share in each)]
        + [""] * (longest - len(each))
        for label, each in shares.items()
        if each
    ]
    header = ["guesses that stand", "all", *(str(position + 1) for position in range(longest))]
    return markdown.table(header, rows) if rows else ""


def _of_guesses(records: Sequence[Record]) -> str:
    return f"{_sum(records, 'accepted_tokens') / max(_sum(records, 'draft_tokens'), 1):.2f}"


def _sum(records: Sequence[Record], counter: str) -> int:
    return sum(int(record.speculation[counter]) for record in records)
