"""From the scheduler's work to a runner's segment: committed tokens, guesses, rows that look ahead."""

from __future__ import annotations

from torch import Tensor

from common.model.batch import Segment
from verify_service.scheduler import Work


def segment_of(item: Work, hidden: bool) -> Segment:
    sequence = item.sequence
    committed = sequence.tokens[sequence.num_computed : sequence.num_computed + item.count]
    return Segment(
        token_ids=[*committed, *item.guesses, *(item.rows.token_ids if item.rows else ())],
        start=sequence.num_computed,
        blocks=sequence.blocks,
        logits=item.num_rows - item.count + 1 if item.completes else 0,
        parents=_parents(item),
        hidden=hidden,
    )


def _parents(item: Work) -> tuple[int, ...]:
    """Of the guesses and of the rows after them, which hang below the same committed token."""
    if item.rows is None:
        return item.block.parents if item.block else ()
    guesses = item.block.tree if item.block else ()
    return (*guesses, *(parent if parent < 0 else parent + len(guesses) for parent in item.rows.parents))


def likeliest_ahead(item: Work, logits: Tensor) -> tuple[int, ...]:
    return tuple(logits[-item.rows.asked :].argmax(-1).tolist()) if item.rows else ()
