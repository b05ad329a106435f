"""A model runner that is all cache: its logits depend on every token it finds in a sequence's blocks.

Of a tree each node sees its own branch.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

from common import trees
from common.model.batch import Move, Output, Segment
from common.model.block_manager import BLOCK_SIZE

VOCABULARY = 100


def logits_after(tokens: Sequence[int]) -> Tensor:
    """[vocabulary], of one whole text."""
    seed = zlib.crc32(bytes(token % 256 for token in tokens))
    return 3 * torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(seed))


class PagedRunner:
    """Keeps tokens where a model keeps keys and values; notices blocks that are shared or too few.

    Attributes:
        ran: for each pass the number of tokens of each segment.
    """

    def __init__(self, num_blocks: int) -> None:
        self._slots: list[int | None] = [None for _ in range(num_blocks * BLOCK_SIZE)]
        self.ran: list[list[int]] = []

    def run(self, segments: Sequence[Segment], moves: Sequence[Move] = ()) -> list[Output]:
        used = [block for segment in segments for block in set(segment.blocks)]
        assert len(used) == len(set(used)), "two sequences share a block"
        self.ran.append([len(segment.token_ids) for segment in segments])
        return [Output(self._run(segment)) for segment in segments]

    def _run(self, segment: Segment) -> Tensor:
        for position, token_id in enumerate(segment.token_ids, segment.start):
            self._slots[self._slot(segment, position)] = token_id
        length = segment.start + len(segment.token_ids)
        rows = [self._logits(segment, row) for row in range(length - segment.logits, length)]
        return torch.stack(rows)

    def _logits(self, segment: Segment, row: int) -> Tensor:
        root = segment.start + len(segment.token_ids) - len(segment.parents)
        branch = trees.path(segment.parents, row - root) if row >= root else ()
        seen = [*range(min(row + 1, root)), *(root + node for node in branch)]
        tokens = [self._slots[self._slot(segment, position)] for position in seen]
        return logits_after([token for token in tokens if token is not None])

    def _slot(self, segment: Segment, position: int) -> int:
        return segment.blocks[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE
