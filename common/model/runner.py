"""One packed forward pass of a causal LM over many sequences."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from common.model import linear
from common.model.attention import KVPool, PackedBatch, Span
from common.model.batch import Move, Output, Segment


def model_thread() -> ThreadPoolExecutor:
    """The one thread of a process that may compute: load, warm up and run the model in it.

    Every thread that computes gets a pool of OpenMP workers of its own. Once there are more of those than
    cores, they stop spinning between operators and go to sleep instead: a pass over a small model then takes
    twice as long.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="model")


class ModelRunner:
    """Runs any transformers decoder on packed segments; keeps their keys and values in a paged pool.

    A sequence's logits are those it has alone to about 1e-4, not to the bit: torch picks the loops of its
    matrix products and of its attention by the number of rows and keys, and each sums in an order of its own.
    """

    def __init__(self, model: Any, num_blocks: int, hidden_layers: Sequence[int] = ()) -> None:
        """
        Args:
            hidden_layers: whose outputs make up the hidden states; 0 is the embedding, the last one is taken
                after the final norm.
        """
        self._model = model
        self._device = str(model.device)
        self._pool = KVPool(num_blocks, model.dtype, self._device)
        self._hidden_layers = tuple(hidden_layers)
        linear.pack(model)

    @torch.inference_mode()
    def run(self, segments: Sequence[Segment], moves: Sequence[Move] = ()) -> list[Output]:
        """One pass, after ``moves``; all of their sources are read before any target is written."""
        self._pool.move(moves)
        lengths = [len(segment.token_ids) for segment in segments]
        rows = itertools.accumulate(lengths, initial=0)
        spans = [
            Span(row, length, segment.start, segment.blocks, segment.parents)
            for row, length, segment in zip(rows, lengths, segments, strict=False)
        ]
        output = self._forward(segments, spans)
        logits = torch.split(output.logits[0], [segment.logits for segment in segments])
        hidden = self._hidden(output, segments, spans)
        return [Output(*pair) for pair in zip(logits, hidden, strict=True)]

    def _forward(self, segments: Sequence[Segment], spans: Sequence[Span]) -> Any:
        token_ids = [token_id for segment in segments for token_id in segment.token_ids]
        positions = [position for span in spans for position in span.positions]
        keep = [
            row
            for segment, span in zip(segments, spans, strict=True)
            for row in range(span.row + span.count - segment.logits, span.row + span.count)
        ]
        return self._model(
            input_ids=torch.tensor([token_ids], device=self._device),
            position_ids=torch.tensor([positions], device=self._device),
            logits_to_keep=torch.tensor(keep, dtype=torch.int64, device=self._device),
            use_cache=False,
            output_hidden_states=any(segment.hidden for segment in segments),
            tandem_batch=PackedBatch(spans, self._pool, self._device),
        )

    def _hidden(self, output: Any, segments: Sequence[Segment], spans: Sequence[Span]) -> list[Tensor | None]:
        if not any(segment.hidden for segment in segments):
            return [None] * len(segments)
        states = torch.cat([output.hidden_states[layer][0] for layer in self._hidden_layers], -1)
        return [
            states[span.row : span.row + span.count] if segment.hidden else None
            for segment, span in zip(segments, spans, strict=True)
        ]
