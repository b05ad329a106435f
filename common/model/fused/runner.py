"""Runs a model of the Llama family through the kernel."""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from common.model.batch import Move, Output, Segment
from common.model.fused import library
from common.model.fused.architecture import Architecture
from common.model.fused.packed_file import PackedFile
from common.model.fused.weights import RECIPES, Tensors, Weights


class FusedRunner:
    """The same interface and the same results as ``ModelRunner``, in one native call a pass.

    Every row is computed by itself, whatever it is computed with: its logits have the same bits alone, in any
    batch, with any number of guesses, from a prompt in one piece or in many.
    """

    def __init__(
        self,
        architecture: Architecture,
        tensors: Tensors,
        *,
        weights: str,
        num_blocks: int,
        threads: int,
        hidden_layers: Sequence[int] = (),
        packed: PackedFile | None = None,
    ) -> None:
        """
        Args:
            weights: a name of ``RECIPES``.
            packed: where packed weights are kept; they are made where it has none.
            hidden_layers: as of ``ModelRunner``.

        Raises:
            Unavailable: where the kernel cannot be compiled.
            MemoryError: where the KV pool does not fit.
        """
        self._kernel = library.load()
        self._architecture = architecture
        self._hidden_layers = len(hidden_layers)
        self._weights = Weights(architecture, tensors, RECIPES[weights], packed or PackedFile())
        self.weight_bytes = self._weights.num_bytes
        config = _config(architecture)
        config.num_blocks, config.threads, config.hidden_layers = num_blocks, threads, len(hidden_layers)
        config.half_cache = RECIPES[weights].half_cache
        layers = np.array(hidden_layers, np.int32)
        pointers = library.Weights(
            layers=self._weights.layers,
            embedding=self._weights.embedding,
            head=self._weights.head,
            final_norm=self._weights.final_norm,
            cosines=self._weights.cosines,
            sines=self._weights.sines,
            hidden_layers=layers.ctypes.data,
        )
        self._model = self._kernel.tandem_create(ctypes.byref(config), ctypes.byref(pointers))
        if not self._model:
            raise MemoryError("the KV pool does not fit into memory")
        weakref.finalize(self, self._kernel.tandem_destroy, self._model)

    def run(self, segments: Sequence[Segment], moves: Sequence[Move] = ()) -> list[Output]:
        """One pass, as ``batch.Runner`` has it."""
        batch = _Batch(segments, moves)
        logits = torch.empty(batch.num_logits, self._architecture.vocabulary)
        hidden = None
        if any(segment.hidden for segment in segments):
            hidden = torch.empty(batch.rows, self._hidden_layers * self._architecture.hidden)
        arguments = batch.arguments(logits, hidden)
        if self._kernel.tandem_run(self._model, ctypes.byref(arguments)):
            raise MemoryError("a pass does not fit into memory")
        return batch.split(logits, hidden)


class _Batch:
    """The arrays of one pass; they must live until it is done."""

    def __init__(self, segments: Sequence[Segment], moves: Sequence[Move]) -> None:
        self._segments = segments
        counts = [len(segment.token_ids) for segment in segments]
        self._starts = list(itertools.accumulate(counts, initial=0))
        self.rows = self._starts[-1]
        self.num_logits = sum(segment.logits for segment in segments)
        token_ids, positions, parents, table, wanted, blocks = [], [], [], [], [], []  # type: ignore[var-annotated]
        for row, count, segment in zip(self._starts, counts, segments, strict=False):
            token_ids += segment.token_ids
            root = segment.start + count - len(segment.parents)
            positions += range(segment.start, root)
            parents += itertools.repeat(-1, root - segment.start)
            first_node = row + root - segment.start
            for parent in segment.parents:
                positions.append(root if parent < 0 else positions[first_node + parent] + 1)
                parents.append(-1 if parent < 0 else first_node + parent)
            table.append((row, count, segment.start, root, len(blocks), 0))
            blocks += segment.blocks
            wanted += range(row + count - segment.logits, row + count)
        self._arrays = {
            "token_ids": token_ids,
            "positions": positions,
            "parents": parents,
            "segment": table,
            "blocks": blocks,
            "logit_rows": wanted,
            "move_sources": [move.source for move in moves],
            "move_targets": [move.target for move in moves],
        }
        self._moves = len(moves)

    def arguments(self, logits: Tensor, hidden: Tensor | None) -> library.Pass:
        self._memory = {name: np.array(values, np.int32) for name, values in self._arrays.items()}
        return library.Pass(
            rows=self.rows,
            segments=len(self._segments),
            logits=self.num_logits,
            moves=self._moves,
            out=logits.data_ptr(),
            hidden=None if hidden is None else hidden.data_ptr(),
            **{name: array.ctypes.data for name, array in self._memory.items()},
        )

    def split(self, logits: Tensor, hidden: Tensor | None) -> list[Output]:
        per_segment = torch.split(logits, [segment.logits for segment in self._segments])
        return [
            Output(own, hidden[start:end] if hidden is not None and segment.hidden else None)
            for own, segment, (start, end) in zip(
                per_segment, self._segments, itertools.pairwise(self._starts), strict=True
            )
        ]


def _config(architecture: Architecture) -> library.Config:
    return library.Config(
        layers=architecture.layers,
        hidden=architecture.hidden,
        heads=architecture.heads,
        kv_heads=architecture.kv_heads,
        head_size=architecture.head_size,
        intermediate=architecture.intermediate,
        vocabulary=architecture.vocabulary,
        positions=architecture.positions,
        epsilon=architecture.epsilon,
        attention_scale=architecture.head_size**-0.5,
    )
