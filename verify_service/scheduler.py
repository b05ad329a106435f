"""Which tokens of which sequences the next pass computes. Deals in ids and blocks, never in tensors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

from common.draft_types import Block
from common.errors import Overloaded
from common.model.batch import Move
from common.model.block_manager import BlockManager
from verify_service import metrics
from verify_service.drafts.lookahead.window import Rows
from verify_service.kv import SequenceBlocks
from verify_service.sequence import Sequence

TakeBlock = Callable[[Sequence], Block | None]
TakeRows = Callable[[Sequence], Rows | None]


@dataclass(frozen=True, slots=True)
class Work:
    """``count`` committed tokens of a sequence, the guesses of ``block``, and ``rows`` that look ahead."""

    sequence: Sequence
    count: int
    block: Block | None
    rows: Rows | None = None

    @property
    def guesses(self) -> tuple[int, ...]:
        return self.block.token_ids if self.block else ()

    @property
    def num_rows(self) -> int:
        return self.count + len(self.guesses) + (len(self.rows.token_ids) if self.rows else 0)

    @property
    def completes(self) -> bool:
        """Whether the pass reaches the last committed token, so that a next one can be chosen."""
        return self.count == self.sequence.num_pending


def decodes(work: Seq[Work]) -> bool:
    """Whether nothing of a prompt is in the pass."""
    return all(item.count == 1 for item in work)


class Scheduler:
    """Continuous batching: sequences join and leave between passes, the oldest first.

    When KV blocks run out the newest sequence gives up its own and is computed again later.
    """

    def __init__(
        self,
        block_manager: BlockManager,
        max_running: int,
        max_waiting: int,
        max_batch_tokens: int,
        prefix_caching: bool = True,
    ) -> None:
        self._kv = SequenceBlocks(block_manager, prefix_caching)
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._max_batch_tokens = max_batch_tokens
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self._passes = 0

    @property
    def num_free_blocks(self) -> int:
        return self._kv.num_free

    @property
    def num_fragments(self) -> int:
        """Blocks held beyond those that committed tokens need; 0 between passes."""
        return sum(self._kv.fragments(sequence) for sequence in self.running)

    def add(self, sequence: Sequence) -> None:
        """Raises Overloaded when the queue is full."""
        if len(self.waiting) >= self._max_waiting:
            raise Overloaded(f"{self._max_waiting} requests are waiting already")
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forget a finished or cancelled sequence; its blocks are free at once."""
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
        self._kv.release(sequence)

    def admit(self) -> None:
        """Move waiting sequences in, in order, while there is room for the tokens they have."""
        while self.waiting and len(self.running) < self._max_running:
            sequence = self.waiting[0]
            self._kv.attach(sequence)
            if not self._kv.reserve(sequence, sequence.num_pending):
                self._kv.release(sequence)
                return
            self.running.append(self.waiting.popleft())
            _count_cached(sequence)

    def fork(self, sequence: Sequence, twin: Sequence) -> None:
        """Add ``twin``, of the same tokens, which goes on from what a running sequence has computed.

        Raises Overloaded when it can neither run nor wait.
        """
        if len(self.running) < self._max_running and sequence in self.running:
            self._kv.fork(sequence, twin)
            twin.cached_tokens = sequence.cached_tokens
            self.running.append(twin)
        else:
            self.add(twin)

    def schedule(self, take_block: TakeBlock) -> list[Work]:
        """The next pass: decoding sequences first, prefill in what is left of the token budget."""
        planned: dict[Sequence, Work] = {}
        budget = self._max_batch_tokens
        self._passes += 1
        for sequence in sorted(self.running, key=_turn):
            if sequence not in self.running or budget <= 0:
                continue
            count = min(sequence.num_pending, budget)
            block = take_block(sequence) if count == sequence.num_pending else None
            if block is not None:
                block = block.prefix(budget - count)
            work = Work(sequence, count, block)
            if self._make_room(work, planned):
                planned[sequence] = work
                sequence.last_pass = self._passes
                budget -= work.num_rows
        return list(planned.values())

    def widen(self, planned: Seq[Work], take_rows: TakeRows) -> list[Work]:
        """The same pass with rows that look ahead, in what is left of the token budget and of the KV blocks:
        nobody gives way to them."""
        budget = self._max_batch_tokens - sum(work.num_rows for work in planned)
        widened = []
        for work in planned:
            wider = replace(work, rows=take_rows(work.sequence)) if work.completes else work
            added = wider.num_rows - work.num_rows
            if added and (added > budget or not self._kv.reserve(work.sequence, wider.num_rows)):
                wider, added = work, 0
            budget -= added
            metrics.LOOKAHEAD_ROWS.inc(added)
            widened.append(wider)
        return widened

    def take_moves(self) -> list[Move]:
        """What must be copied before the pass that was scheduled."""
        return self._kv.take_moves()

    def settle(self, sequence: Sequence) -> None:
        """After a pass, once its tokens are committed: share what is full, give back what is not needed."""
        self._kv.settle(sequence)

    def forget_prefixes(self) -> None:
        """After a pass that failed: nothing in the pool can be trusted."""
        self._kv.forget_all()

    def _make_room(self, work: Work, planned: dict[Sequence, Work]) -> bool:
        """Reserve blocks for ``work``, preempting newer sequences; False: it was the newest itself."""
        while not self._kv.reserve(work.sequence, work.num_rows):
            victim = self.running.pop()
            planned.pop(victim, None)
            self._kv.release(victim)
            self.waiting.appendleft(victim)
            metrics.PREEMPTIONS.inc()
            if victim is work.sequence:
                return False
        return True


def _count_cached(sequence: Sequence) -> None:
    """Once per request: what it finds again after a preemption is its own."""
    if sequence.cached_tokens is None:
        sequence.cached_tokens = sequence.num_computed
        metrics.PREFIX_QUERIES.inc(len(sequence.tokens))
        metrics.PREFIX_HITS.inc(sequence.num_computed)


def _turn(sequence: Sequence) -> tuple[bool, int]:
    """Decoding first, the longest unserved ahead; then prefill, the oldest ahead."""
    prefill = sequence.num_pending > 1
    return prefill, 0 if prefill else sequence.last_pass
