"""Which tokens of which sequences the next pass computes. Deals in ids and blocks, never in tensors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from common.errors import Overloaded
from common.model.block_manager import BlockManager
from common.types import Block
from verify_service.sequence import Sequence

TakeBlock = Callable[[Sequence], Block | None]

_RUN_HINT_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class Work:
    """``count`` committed tokens of a sequence, then the guesses of ``block``."""

    sequence: Sequence
    count: int
    block: Block | None

    @property
    def guesses(self) -> tuple[int, ...]:
        return self.block.token_ids if self.block else ()

    @property
    def completes(self) -> bool:
        """Whether the pass reaches the last committed token, so that a next one can be chosen."""
        return self.count == self.sequence.num_pending


class Scheduler:
    """Continuous batching: sequences join and leave between passes, the oldest first.

    When KV blocks run out the newest sequence gives up its own and is computed again later.
    """

    def __init__(
        self, block_manager: BlockManager, max_running: int, max_waiting: int, max_batch_tokens: int
    ) -> None:
        self._block_manager = block_manager
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._max_batch_tokens = max_batch_tokens
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self._passes = 0

    @property
    def num_free_blocks(self) -> int:
        return self._block_manager.num_free

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
        self._release(sequence)

    def admit(self) -> None:
        """Move waiting sequences in, in order, while there is room for their next tokens."""
        while self.waiting and len(self.running) < self._max_running:
            sequence = self.waiting[0]
            if not self._grow(sequence, len(sequence.tokens)):
                return
            self.running.append(self.waiting.popleft())

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
                budget -= count + len(work.guesses)
        return list(planned.values())

    def _make_room(self, work: Work, planned: dict[Sequence, Work]) -> bool:
        """Grow the sequence's blocks for ``work``, preempting newer ones; False: it was the newest itself."""
        needed = work.sequence.num_computed + work.count + len(work.guesses)
        while not self._grow(work.sequence, needed):
            victim = self.running.pop()
            planned.pop(victim, None)
            self._release(victim)
            self.waiting.appendleft(victim)
            if victim is work.sequence:
                return False
        return True

    def _grow(self, sequence: Sequence, tokens: int) -> bool:
        missing = self._block_manager.blocks_for(tokens) - len(sequence.blocks)
        if missing <= 0:
            return True
        if not self._block_manager.can_allocate(missing):
            return False
        hint = self._block_manager.blocks_for(min(sequence.max_length, tokens + _RUN_HINT_TOKENS))
        sequence.blocks += self._block_manager.allocate(missing, after=sequence.blocks, hint=hint)
        return True

    def _release(self, sequence: Sequence) -> None:
        self._block_manager.free(sequence.blocks)
        sequence.blocks = []
        sequence.num_computed = 0


def _turn(sequence: Sequence) -> tuple[bool, int]:
    """Decoding first, the longest unserved ahead; then prefill, the oldest ahead."""
    prefill = sequence.num_pending > 1
    return prefill, 0 if prefill else sequence.last_pass
