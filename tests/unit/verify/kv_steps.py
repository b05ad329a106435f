"""Passes of a scheduler over any runner, without the engine around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

from common.model.batch import Output, Runner, Segment
from common.model.block_manager import BlockManager
from verify_service.drafts.lookahead.window import Rows
from verify_service.scheduler import Scheduler, TakeBlock, TakeRows, Work
from verify_service.segments import segment_of
from verify_service.sequence import Sequence


@dataclass(frozen=True)
class Ran:
    """A sequence's part of a pass."""

    work: Work
    segment: Segment
    output: Output


def no_block(sequence: Sequence) -> None:
    return None


def no_rows(sequence: Sequence) -> Rows | None:
    return None


def one_pass(
    scheduler: Scheduler, runner: Runner, take_block: TakeBlock = no_block, take_rows: TakeRows = no_rows
) -> list[Ran]:
    """As the engine makes it, with logits of every token; what came of it is the caller's to commit."""
    scheduler.admit()
    work = scheduler.widen(scheduler.schedule(take_block), take_rows)
    if not work:
        return []
    segments = [_fully_judged(item) for item in work]
    outputs = runner.run(segments, scheduler.take_moves())
    return [Ran(*parts) for parts in zip(work, segments, outputs, strict=True)]


def _fully_judged(work: Work) -> Segment:
    segment = segment_of(work, hidden=False)
    return replace(segment, blocks=list(segment.blocks), logits=len(segment.token_ids))


def commit(scheduler: Scheduler, ran: Ran, accepted: Seq[int], bonus: int) -> None:
    """As the engine does it: the accepted guesses, by their indices, and the target's own token."""
    sequence, completes = ran.work.sequence, ran.work.completes
    sequence.num_computed += ran.work.count + len(accepted)
    if completes:
        sequence.tokens += [*(ran.work.guesses[index] for index in accepted), bonus]
    scheduler.settle(sequence)


def assert_consistent(pool: BlockManager, scheduler: Scheduler) -> None:
    """Between passes: who holds what adds up, nobody holds too much, no tenants share."""
    assert not any(sequence.blocks for sequence in scheduler.waiting)
    holders = Counter(block for sequence in scheduler.running for block in sequence.blocks)
    assert {block: pool.holders(block) for block in range(pool.num_blocks) if pool.holders(block)} == holders
    assert pool.num_free == pool.num_blocks - len(holders)
    assert scheduler.num_fragments == 0
    salts: dict[int, str] = {}
    for sequence in scheduler.running:
        assert len(set(sequence.blocks)) == len(sequence.blocks)
        for block in sequence.blocks:
            assert salts.setdefault(block, sequence.request.cache_salt) == sequence.request.cache_salt
