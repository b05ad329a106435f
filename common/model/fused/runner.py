"""Runs a model of the Llama family through the kernel."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from common.model.batch import Move, Output, Segment
from common.model.block_manager import BLOCK_SIZE
from common.model.fused import library
from common.model.fused.architecture import Architecture
from common.model.fused.packed_file import PackedFile
from common.model.fused.weights import RECIPES, Tensors, Weights


class FusedRunner:
    """The same interface and the same results as ``ModelRunner``, in one native call a pass.

    Every row is computed by itself, whatever it is computed with: its logits have the same bits alone, in any
    batch, with any number of guesses, from a prompt in one piece or in many. For one caller at a time.
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
            Unsupported: where a tensor is missing.
            MemoryError: where the KV pool does not fit, or the system has no more threads.
        """
        assert threads > 0 and num_blocks * BLOCK_SIZE < 2**31
        assert all(0 <= layer <= architecture.layers for layer in hidden_layers), hidden_layers
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
            join=self._weights.join,
            embedding_norm=self._weights.embedding_norm,
            feature_norm=self._weights.feature_norm,
        )
        self._model = self._kernel.tandem_create(ctypes.byref(config), ctypes.byref(pointers))
        if not self._model:
            raise MemoryError(f"no memory for {num_blocks} blocks of keys and values and {threads} threads")
        library.release_with(self, self._kernel.tandem_destroy, self._model)
        self._limits = _limits(architecture, num_blocks)

    def run(
        self, segments: Sequence[Segment], moves: Sequence[Move] = (), features: Tensor | None = None
    ) -> list[Output]:
        """One pass, as ``batch.Runner`` has it.

        Args:
            features: float32 [rows, hidden], of every token one; for a model that reads them, and no other.

        Raises:
            IndexError: for a token, a position, a block or a slot that there is not; nothing has run then.
        """
        batch = _Batch(segments, moves, self._limits)
        assert (features is not None) == self._architecture.joined
        logits = torch.empty(batch.num_logits, self._architecture.vocabulary, dtype=torch.float32)
        hidden = None
        if any(segment.hidden for segment in segments):
            width = self._hidden_layers * self._architecture.hidden
            hidden = torch.empty(batch.rows, width, dtype=torch.float32)
        arguments = batch.arguments(logits, hidden)
        if features is not None:
            assert features.shape == (batch.rows, self._architecture.hidden)
            features = features.float().contiguous()
            arguments.features = features.data_ptr()
        if self._kernel.tandem_run(self._model, ctypes.byref(arguments)):
            raise MemoryError("a pass does not fit into memory")
        return batch.split(logits, hidden)


class _Batch:
    """The arrays of one pass; they must live until it is done."""

    def __init__(self, segments: Sequence[Segment], moves: Sequence[Move], limits: Mapping[str, int]) -> None:
        self._segments = segments
        counts = [len(segment.token_ids) for segment in segments]
        self._starts = list(itertools.accumulate(counts, initial=0))
        self.rows = self._starts[-1]
        self.num_logits = sum(segment.logits for segment in segments)
        token_ids, positions, parents, table, wanted, blocks = [], [], [], [], [], []  # type: ignore[var-annotated]
        for row, count, segment in zip(self._starts, counts, segments, strict=False):
            token_ids += segment.token_ids
            assert len(segment.blocks) * BLOCK_SIZE >= segment.start + count
            assert max(segment.logits, len(segment.parents)) <= count
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
        arrays = {
            "token_ids": token_ids,
            "positions": positions,
            "parents": parents,
            "segment": table,
            "blocks": blocks,
            "logit_rows": wanted,
            "move_sources": [move.source for move in moves],
            "move_targets": [move.target for move in moves],
        }
        self._memory = {name: np.array(values, np.int32) for name, values in arrays.items()}
        self._moves = len(moves)
        for name, limit in limits.items():
            if self._memory[name].view(np.uint32).max(initial=0) >= limit:  # a negative one looks large
                raise IndexError(f"{name} must be from 0 to {limit - 1}")

    def arguments(self, logits: Tensor, hidden: Tensor | None) -> library.Pass:
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


def _limits(architecture: Architecture, num_blocks: int) -> Mapping[str, int]:
    """What every entry of a pass's arrays must be below, where the kernel would leave its memory."""
    slots = num_blocks * BLOCK_SIZE
    return {
        "token_ids": architecture.token_ids,
        "positions": architecture.positions,
        "blocks": num_blocks,
        "move_sources": slots,
        "move_targets": slots,
    }


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
