"""Which KV blocks belong to whom. Deals in block numbers, never in tensors."""

from __future__ import annotations

from collections.abc import Sequence

BLOCK_SIZE = 16


class BlockManager:
    """A pool of fixed-size KV blocks, each of ``BLOCK_SIZE`` token positions."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._free = [True] * num_blocks
        self.num_free = num_blocks

    @staticmethod
    def blocks_for(tokens: int) -> int:
        """How many blocks hold that many tokens."""
        return -(-tokens // BLOCK_SIZE)

    def can_allocate(self, count: int) -> bool:
        return count <= self.num_free

    def allocate(self, count: int, after: Sequence[int] = (), hint: int = 0) -> list[int]:
        """``count`` free blocks, neighbours where possible: attention reads a run of blocks in place.

        Args:
            after: the blocks these will follow; the next ones are taken if they are free.
            hint: how many the owner may come to hold; the first ones are set where that many are free.
        """
        assert self.can_allocate(count)
        blocks = self._next_run(count, after) or self._first_run(max(count, hint))[:count]
        blocks = blocks or self._first_run(count) or self._first_free(count)
        for block in blocks:
            self._free[block] = False
        self.num_free -= count
        return blocks

    def free(self, blocks: list[int]) -> None:
        for block in blocks:
            assert not self._free[block]
            self._free[block] = True
        self.num_free += len(blocks)

    def _next_run(self, count: int, after: Sequence[int]) -> list[int]:
        if not after:
            return []
        run = range(after[-1] + 1, min(after[-1] + 1 + count, self.num_blocks))
        return list(run) if len(run) == count and all(self._free[block] for block in run) else []

    def _first_run(self, count: int) -> list[int]:
        length = 0
        for block, free in enumerate(self._free):
            length = length + 1 if free else 0
            if length == count:
                return list(range(block - count + 1, block + 1))
        return []

    def _first_free(self, count: int) -> list[int]:
        free = (block for block, is_free in enumerate(self._free) if is_free)
        return [block for block, _ in zip(free, range(count), strict=False)]
