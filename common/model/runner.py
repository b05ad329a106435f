"""One packed forward pass of a causal LM over many sequences."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from common.model import linear
from common.model.attention import KVPool, PackedBatch, Span


def model_thread() -> ThreadPoolExecutor:
    """The one thread of a process that may compute: load, warm up and run the model in it.

    Every thread that computes gets a pool of OpenMP workers of its own. Once there are more of those than
    cores, they stop spinning between operators and go to sleep instead: a pass over a small model then takes
    twice as long.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="model")


@dataclass(frozen=True, slots=True)
class Segment:
    """The tokens of one sequence that a pass computes.

    Attributes:
        token_ids: the tokens, the first at position ``start``; everything before is in the KV blocks.
        blocks: the sequence's KV blocks, enough for ``start + len(token_ids)`` tokens.
        logits: how many of the last tokens need logits.
    """

    token_ids: Sequence[int]
    start: int
    blocks: Sequence[int]
    logits: int


class ModelRunner:
    """Runs any transformers decoder on packed segments; keeps their keys and values in a paged pool."""

    def __init__(self, model: Any, num_blocks: int) -> None:
        self._model = model
        self._device = str(model.device)
        self._pool = KVPool(num_blocks, model.dtype, self._device)
        linear.pack(model)

    @torch.inference_mode()
    def run(self, segments: Sequence[Segment]) -> list[Tensor]:
        """One pass.

        Returns:
            Per segment its logits, [segment.logits, vocabulary].
        """
        lengths = [len(segment.token_ids) for segment in segments]
        rows = list(itertools.accumulate(lengths, initial=0))
        spans = [
            Span(row, length, segment.start, segment.blocks)
            for row, length, segment in zip(rows, lengths, segments, strict=False)
        ]
        logits = self._forward(segments, spans)
        return list(torch.split(logits, [segment.logits for segment in segments]))

    def _forward(self, segments: Sequence[Segment], spans: Sequence[Span]) -> Tensor:
        token_ids = [token_id for segment in segments for token_id in segment.token_ids]
        positions = [position for span in spans for position in range(span.start, span.length)]
        keep = [
            row
            for segment, span in zip(segments, spans, strict=True)
            for row in range(span.row + span.count - segment.logits, span.row + span.count)
        ]
        output = self._model(
            input_ids=torch.tensor([token_ids], device=self._device),
            position_ids=torch.tensor([positions], device=self._device),
            logits_to_keep=torch.tensor(keep, dtype=torch.int64, device=self._device),
            use_cache=False,
            tandem_batch=PackedBatch(spans, self._pool, self._device),
        )
        logits: Tensor = output.logits[0]
        return logits
