"""Which KV blocks a sequence runs on: prefixes it shares, copies before it writes, leftovers given back."""

from __future__ import annotations

from collections.abc import Iterable

from common.model.batch import Move
from common.model.block_manager import BLOCK_SIZE, BlockManager
from verify_service import metrics
from verify_service.prefixes import PrefixHasher
from verify_service.sequence import Sequence

_RUN_HINT_TOKENS = 1024


class SequenceBlocks:
    """Hands out the blocks of a pool to sequences.

    A block that others use, or may find in the prefix cache, is never written: whoever must write to it gets
    a copy first. Copies are made before the next pass, whichever sequences are in it. Until then a block that
    is still to be copied from may change hands, but nothing can be written to it.
    """

    def __init__(self, block_manager: BlockManager, prefix_caching: bool) -> None:
        self._pool = block_manager
        self._hasher = PrefixHasher() if prefix_caching else None
        self._copies: dict[int, int] = {}  # from which slot, by the slot it goes to

    @property
    def num_free(self) -> int:
        return self._pool.num_free

    @staticmethod
    def fragments(sequence: Sequence) -> int:
        """Blocks it holds beyond those that its committed tokens need."""
        return max(0, len(sequence.blocks) - BlockManager.blocks_for(len(sequence.tokens)))

    def attach(self, sequence: Sequence) -> None:
        """Start a sequence on what is known of its tokens; the last is left to compute, for its logits."""
        assert not sequence.blocks
        if self._hasher is None:
            return
        self._name(sequence, len(sequence.tokens) // BLOCK_SIZE, self._hasher)
        sequence.blocks = self._pool.find(sequence.block_names)
        self._pool.share(sequence.blocks)
        sequence.num_remembered = len(sequence.blocks)
        sequence.num_computed = min(len(sequence.blocks) * BLOCK_SIZE, len(sequence.tokens) - 1)

    def fork(self, sequence: Sequence, twin: Sequence) -> None:
        """Start ``twin``, of the same tokens, on all that ``sequence`` has computed."""
        assert not twin.blocks
        assert twin.tokens == sequence.tokens
        twin.blocks = list(sequence.blocks)
        self._pool.share(twin.blocks)
        twin.block_names = list(sequence.block_names)
        twin.num_remembered = sequence.num_remembered
        twin.num_computed = sequence.num_computed

    def reserve(self, sequence: Sequence, count: int) -> bool:
        """Make the ``count`` positions after those computed the sequence's own; False: blocks ran out."""
        start, end = sequence.num_computed, sequence.num_computed + count
        written = range(start // BLOCK_SIZE, BlockManager.blocks_for(end))
        return self._grow(sequence, end) and all(self._own(sequence, index) for index in written)

    def settle(self, sequence: Sequence) -> None:
        """After a pass: take over its moves, remember its full blocks, give back what it does not need."""
        self._copy(sequence.moves)
        sequence.moves.clear()
        full = min(sequence.num_computed, len(sequence.tokens)) // BLOCK_SIZE
        if self._hasher is not None:
            self._name(sequence, full, self._hasher)
            for index in range(sequence.num_remembered, full):
                self._pool.remember(sequence.blocks[index], sequence.block_names[index])
            sequence.num_remembered = full
        needed = BlockManager.blocks_for(len(sequence.tokens))
        self._pool.free(sequence.blocks[needed:])
        del sequence.blocks[needed:]

    def release(self, sequence: Sequence) -> None:
        """Take everything from a sequence; what was remembered of it can still be found."""
        self._pool.free(sequence.blocks)
        sequence.blocks = []
        sequence.num_remembered = 0
        sequence.num_computed = 0

    def take_moves(self) -> list[Move]:
        """What must be copied before the next pass."""
        moves = [Move(source, target) for target, source in self._copies.items() if source != target]
        self._copies.clear()
        return moves

    def forget_all(self) -> None:
        """Trust nothing in the pool: the pass that was to fill it or to copy has failed."""
        self._copies.clear()
        self._pool.forget_all()

    def _name(self, sequence: Sequence, count: int, hasher: PrefixHasher) -> None:
        hasher.extend(sequence.block_names, sequence.tokens, sequence.request.cache_salt, count)

    def _grow(self, sequence: Sequence, tokens: int) -> bool:
        missing = BlockManager.blocks_for(tokens) - len(sequence.blocks)
        if missing > self._pool.num_free:
            return False
        if missing > 0:
            hint = BlockManager.blocks_for(min(sequence.max_length, tokens + _RUN_HINT_TOKENS))
            sequence.blocks += self._allocate(missing, sequence.blocks, hint)
        return True

    def _own(self, sequence: Sequence, index: int) -> bool:
        """See that a block is written by nobody else, nor found by its content any more."""
        shared = sequence.blocks[index]
        if not self._pool.is_shared(shared):
            return True
        if self._pool.holders(shared) > 1 and not self._pool.can_allocate(1):
            return False
        self._pool.free([shared])  # with nothing else free it comes back, forgotten by the cache
        [own] = self._allocate(1, sequence.blocks[index - 1 : index], hint=1)
        sequence.blocks[index] = own
        sequence.num_remembered = min(sequence.num_remembered, index)
        used = range(max(0, sequence.num_computed - index * BLOCK_SIZE))
        self._copy(Move(shared * BLOCK_SIZE + offset, own * BLOCK_SIZE + offset) for offset in used)
        return True

    def _allocate(self, count: int, after: list[int], hint: int) -> list[int]:
        evicted = self._pool.num_evicted
        blocks = self._pool.allocate(count, after, hint)
        metrics.PREFIX_EVICTIONS.inc(self._pool.num_evicted - evicted)
        return blocks

    def _copy(self, moves: Iterable[Move]) -> None:
        """Add moves to be made after those already there: the runner makes all of them at once."""
        self._copies |= {move.target: self._copies.get(move.source, move.source) for move in moves}
