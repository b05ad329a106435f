"""Memory for what the kernel reads."""

from __future__ import annotations

import mmap

import torch
from torch import Tensor


class Arena:
    """Memory for what the kernel reads, in huge pages where the system has them.

    With pages of 4 KiB the processor spends up to half the time of a pass on finding them.
    """

    _CHUNK = 32 << 20
    _ALIGNMENT = 64

    def __init__(self) -> None:
        self._chunks: list[Tensor] = []
        self._used = 0
        self.num_bytes = 0

    def keep(self, tensor: Tensor) -> int:
        """A copy's address, valid as long as this arena lives."""
        source = tensor.detach().contiguous().flatten().view(torch.uint8)
        if not self._chunks or self._used + len(source) > len(self._chunks[-1]):
            self._chunks.append(_huge(max(len(source), self._CHUNK)))
            self._used = 0
        place = self._chunks[-1][self._used : self._used + len(source)]
        place.copy_(source)
        self._used += -(-len(source) // self._ALIGNMENT) * self._ALIGNMENT
        self.num_bytes += len(source)
        return place.data_ptr()


def _huge(size: int) -> Tensor:
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8)
