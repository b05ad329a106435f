"""Attention over packed sequences whose keys and values live in a paged pool.

Registered with transformers under ``IMPLEMENTATION``, so that any of its decoders runs on it unchanged: the
decoder hands over the rotated query, key and value of every packed token, in one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from transformers import AttentionInterface

from common.model.batch import Move
from common.model.block_manager import BLOCK_SIZE

IMPLEMENTATION = "tandem_paged"


@dataclass(frozen=True, slots=True)
class Span:
    """One sequence's part of a packed pass: rows ``row`` to ``row + count``, slots from ``start``.

    ``parents`` as in ``batch.Segment``: its last rows are a tree.
    """

    row: int
    count: int
    start: int
    blocks: Sequence[int]
    parents: Sequence[int] = ()

    @property
    def length(self) -> int:
        """Tokens of context once this pass is written."""
        return self.start + self.count

    @property
    def root(self) -> int:
        """Slots of context before the tree; all of them where there is none."""
        return self.length - len(self.parents)

    @property
    def positions(self) -> list[int]:
        """Of each row; a tree's nodes at the same depth share one."""
        positions = list(range(self.start, self.root))
        for parent in self.parents:
            positions.append(self.root if parent < 0 else positions[self.root - self.start + parent] + 1)
        return positions


class KVPool:
    """Keys and values of every layer, [2, kv heads, positions, head size] each, made when first seen."""

    def __init__(self, num_blocks: int, dtype: torch.dtype, device: str) -> None:
        self._positions = num_blocks * BLOCK_SIZE
        self._dtype = dtype
        self._device = device
        self._layers: dict[int, Tensor] = {}

    def layer(self, index: int, kv_heads: int, head_size: int) -> Tensor:
        if index not in self._layers:
            shape = (2, kv_heads, self._positions, head_size)
            self._layers[index] = torch.empty(shape, dtype=self._dtype, device=self._device)
        return self._layers[index]

    def move(self, moves: Sequence[Move]) -> None:
        """Copy tokens between slots, in every layer; all sources are read before any target is written."""
        if not moves:
            return
        sources = torch.tensor([move.source for move in moves], device=self._device)
        targets = torch.tensor([move.target for move in moves], device=self._device)
        for layer in self._layers.values():
            layer[:, :, targets] = layer[:, :, sources]


class PackedBatch:
    """What attention needs to know of a packed pass; slots are worked out once, for all layers."""

    def __init__(self, spans: Sequence[Span], pool: KVPool, device: str) -> None:
        self.spans = spans
        self.pool = pool
        self._device = device
        self.new_slots = torch.cat([_slots(span.blocks, span.start, span.length) for span in spans]).to(
            device
        )
        self.context_slots = [_run_or_slots(span, device) for span in spans]
        self._masks: dict[tuple[int, int | None, int], Tensor] = {}

    def mask(self, index: int, window: int | None, group: int) -> Tensor | None:
        """True where a row of span ``index`` may look, [group * count, length]; None where all may.

        Made once per pass and shared by the layers.
        """
        span = self.spans[index]
        if span.count == 1 and not span.parents and (window is None or span.length <= window):
            return None
        key = (index, window, group)
        if key not in self._masks:
            self._masks[key] = _allowed(span, window).repeat(group, 1).to(self._device)
        return self._masks[key]


def _allowed(span: Span, window: int | None) -> Tensor:
    """[count, length]: a row sees itself and what it follows, back to ``window`` positions."""
    slots = torch.arange(span.length)
    allowed = slots <= slots[span.start :].unsqueeze(1)
    if span.parents:
        allowed[-len(span.parents) :, span.root :] = _ancestry(span.parents)
    if window is not None:
        positions = torch.tensor([*range(span.start), *span.positions])
        allowed &= positions > positions[span.start :].unsqueeze(1) - window
    return allowed


def _ancestry(parents: Sequence[int]) -> Tensor:
    """[nodes, nodes]: whether the column is the row's node or one of its ancestors."""
    ancestry = torch.eye(len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents):
        if parent >= 0:
            ancestry[node] |= ancestry[parent]
    return ancestry


def _slots(blocks: Sequence[int], start: int, end: int) -> Tensor:
    """The pool positions that hold tokens ``start`` to ``end``."""
    table = torch.tensor(blocks, dtype=torch.int64)
    tokens = torch.arange(start, end)
    return table[tokens // BLOCK_SIZE] * BLOCK_SIZE + tokens % BLOCK_SIZE


def _run_or_slots(span: Span, device: str) -> slice | Tensor:
    """A slice where the span's blocks are neighbours, else the position of each token."""
    used = span.blocks[: -(-span.length // BLOCK_SIZE)]
    first = used[0]
    if list(used) == list(range(first, first + len(used))):
        return slice(first * BLOCK_SIZE, first * BLOCK_SIZE + span.length)
    return _slots(span.blocks, 0, span.length).to(device)


def paged_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    tandem_batch: PackedBatch,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Write the pass's keys and values to the pool, then attend each sequence to its own.

    Args:
        query: [1, heads, rows, head size].
        key, value: [1, kv heads, rows, head size].

    Returns:
        [1, rows, heads, head size].
    """
    if s_aux is not None:
        raise NotImplementedError("attention sinks are not supported")
    batch, kv_heads = tandem_batch, key.shape[1]
    keys, values = batch.pool.layer(module.layer_idx, kv_heads, key.shape[3])
    keys.index_copy_(1, batch.new_slots, key[0])
    values.index_copy_(1, batch.new_slots, value[0])
    out = torch.empty_like(query[0].transpose(0, 1))
    for index, span in enumerate(batch.spans):
        rows, slots = slice(span.row, span.row + span.count), batch.context_slots[index]
        mask = batch.mask(index, sliding_window, query.shape[1] // kv_heads)
        out[rows] = _attend(
            query[0, :, rows], keys[:, slots], values[:, slots], mask, scaling=scaling, softcap=softcap
        )
    return out.unsqueeze(0), None


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    scaling: float | None,
    softcap: float | None,
) -> Tensor:
    """One sequence: [heads, count, size] over [kv heads, length, size] to [count, heads, size].

    The heads of a group become rows of one query, so the keys are not copied and the products are large.
    """
    heads, count, size = query.shape
    folded = query.reshape(key.shape[0], -1, size)
    if softcap is None:
        attended = F.scaled_dot_product_attention(
            folded.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0), attn_mask=mask, scale=scaling
        )[0]
    else:
        attended = _soft_capped(folded, key, value, mask, scale=scaling or size**-0.5, softcap=softcap)
    return attended.view(heads, count, -1).transpose(0, 1)


def _soft_capped(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, scale: float, softcap: float
) -> Tensor:
    """Scores squeezed into (-softcap, softcap) before the softmax, as Gemma 2 has it."""
    scores = torch.tanh(query @ key.transpose(1, 2) * (scale / softcap)) * softcap
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1, dtype=torch.float32).to(query.dtype) @ value


AttentionInterface.register(IMPLEMENTATION, paged_attention)
