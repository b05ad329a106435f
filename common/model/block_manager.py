"""Which KV blocks are held, free or remembered. Deals in block numbers, never in tensors."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Sequence

BLOCK_SIZE = 16


class BlockManager:
    """A pool of fixed-size KV blocks, each of ``BLOCK_SIZE`` token positions.

    A block may have several holders. One that was remembered under a hash keeps its content when the last of
    them lets go: it is free all the same, and is given out after those that hold nothing, the one unused the
    longest first.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.num_evicted = 0
        self._holders = [0] * num_blocks
        self._free = OrderedDict.fromkeys(range(num_blocks))  # the next to be given out comes first
        self._hashes: dict[int, bytes] = {}
        self._by_hash: dict[bytes, int] = {}

    @staticmethod
    def blocks_for(tokens: int) -> int:
        """How many blocks hold that many tokens."""
        return -(-tokens // BLOCK_SIZE)

    @property
    def num_free(self) -> int:
        return len(self._free)

    def can_allocate(self, count: int) -> bool:
        return count <= self.num_free

    def holders(self, block: int) -> int:
        return self._holders[block]

    def is_shared(self, block: int) -> bool:
        """Whether others may read it, now or later, so that its one holder must not write to it."""
        return self._holders[block] > 1 or block in self._hashes

    def allocate(self, count: int, after: Sequence[int] = (), hint: int = 0) -> list[int]:
        """``count`` free blocks, neighbours where possible: attention reads a run of blocks in place.

        Args:
            after: the blocks these will follow; the next ones are taken if they are empty.
            hint: how many the owner may come to hold; the first ones are set where that many are empty.
        """
        assert self.can_allocate(count)
        run = self._run(after[-1] + 1 if after else self._first_run(max(count, hint)), count)
        others = (block for block in self._free if block not in run)
        blocks = [*run, *sorted(itertools.islice(others, count - len(run)))]
        for block in blocks:
            self._take(block)
        return blocks

    def free(self, blocks: Sequence[int]) -> None:
        """One holder lets go of them; a chain's tail is forgotten before its head, which more may share."""
        for block in reversed(blocks):
            assert self._holders[block] > 0
            self._holders[block] -= 1
            if not self._holders[block]:
                self._free[block] = None
                self._free.move_to_end(block, last=block in self._hashes)

    def share(self, blocks: Sequence[int]) -> None:
        """One holder more."""
        for block in blocks:
            self._holders[block] += 1
            self._free.pop(block, None)

    def remember(self, block: int, content: bytes) -> None:
        """Find a full block under this hash from now on, unless another with the same content is known.

        The hash is all that is compared, so it must be one that nobody can forge; see ``PrefixHasher``.
        """
        assert self._holders[block] > 0
        assert block not in self._hashes
        if content not in self._by_hash:
            self._hashes[block] = content
            self._by_hash[content] = block

    def find(self, contents: Sequence[bytes]) -> list[int]:
        """The blocks of the first hashes, up to the first that is not known."""
        blocks = []
        for content in contents:
            block = self._by_hash.get(content)
            if block is None:
                break
            blocks.append(block)
        return blocks

    def forget_all(self) -> None:
        """Find nothing from now on."""
        self._hashes.clear()
        self._by_hash.clear()

    def _take(self, block: int) -> None:
        del self._free[block]
        self._holders[block] = 1
        content = self._hashes.pop(block, None)
        if content is not None:
            del self._by_hash[content]
            self.num_evicted += 1

    def _is_empty(self, block: int) -> bool:
        return block in self._free and block not in self._hashes

    def _run(self, first: int, count: int) -> range:
        """At most ``count`` empty neighbours from ``first`` on."""
        blocks = range(first, min(first + count, self.num_blocks))
        full = next((block for block in blocks if not self._is_empty(block)), blocks.stop)
        return range(first, full)

    def _first_run(self, count: int) -> int:
        """Where ``count`` empty neighbours begin; the end of the pool if they are nowhere."""
        length = 0
        for block in range(self.num_blocks):
            length = length + 1 if self._is_empty(block) else 0
            if length == count:
                return block - count + 1
        return self.num_blocks
