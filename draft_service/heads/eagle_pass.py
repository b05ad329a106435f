"""A pass of a feature head over many sessions: by the kernel, or by torch where that cannot run it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from common import logging
from common.model.batch import Output, Segment
from common.model.block_manager import BLOCK_SIZE
from common.model.fused import architecture, library
from common.model.fused.architecture import Architecture, Unsupported
from common.model.fused.runner import FusedRunner
from draft_service.heads.eagle import EagleHead
from draft_service.heads.layer import frequencies
from draft_service.heads.running import Linears, RunningHead, quantise

log = logging.get("head")

EaglePass = Callable[[Sequence[Segment], Tensor], list[Output]]
"""One pass over segments of rows, as ``batch.Runner`` has it.

A row's token is what follows its feature, all features are [rows, hidden], and a segment's hidden states are
the guesses at the features of its tokens. A row sees the rows before it within the head's window.
"""


def make(running: RunningHead, num_blocks: int, positions: int) -> EaglePass:
    """
    Args:
        num_blocks: of the KV pool.
        positions: most rows of a segment and what is before it.
    """
    assert isinstance(running.head, EagleHead)
    try:
        run = _by_kernel(running, running.head, num_blocks, positions)
    except (Unsupported, library.Unavailable) as because:
        log.info("a head is run by torch", because=str(because))
        return TorchPass(running, num_blocks)
    if running.head.fuse is not None:
        alone = nn.Sequential(running.head.fuse)
        quantise(alone, running)
        running.head.fuse = alone[0]  # type: ignore[assignment]
    return run


def _by_kernel(running: RunningHead, head: EagleHead, num_blocks: int, positions: int) -> EaglePass:
    """
    Raises:
        Unavailable: where the kernel cannot be compiled.
        Unsupported: for sizes that it has no blocks for.
    """
    weights = kernel_weights(running, head)
    runner = FusedRunner(
        kernel_architecture(running, positions),
        weights.get,
        weights=running.weights,
        num_blocks=num_blocks,
        threads=running.threads,
        hidden_layers=(1,),
    )
    return lambda segments, features: runner.run(segments, features=features)


def kernel_architecture(running: RunningHead, positions: int) -> Architecture:
    """Raises Unsupported."""
    shape = running.shape
    architecture.check_sizes(shape.hidden, shape.intermediate, shape.head_size, len(running.vocabulary))
    turned = torch.arange(positions).unsqueeze(1) * frequencies(shape.head_size, shape.rope_theta)
    return Architecture(
        layers=1,
        hidden=shape.hidden,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_size=shape.head_size,
        intermediate=shape.intermediate,
        vocabulary=len(running.vocabulary),
        positions=positions,
        epsilon=shape.epsilon,
        tied=False,
        query_key_norm=False,
        windows=(shape.window,),
        cosines=turned.cos(),
        sines=turned.sin(),
        embedded=len(running.parts.embedding),
        joined=True,
    )


def kernel_weights(running: RunningHead, head: EagleHead) -> dict[str, Tensor]:
    """By the names that the kernel's weights are asked for."""
    layer, parts, prefix = head.layer, running.parts, "model.layers.0."
    linears = {f"self_attn.{name}_proj": getattr(layer, name) for name in "qkvo"}
    linears |= {f"mlp.{name}_proj": getattr(layer, name) for name in ("gate", "up", "down")}
    linears |= {"input_layernorm": layer.input_norm, "post_attention_layernorm": layer.post_norm}
    return {
        **{f"{prefix}{name}.weight": module.weight.detach() for name, module in linears.items()},
        "model.embed_tokens.weight": parts.embedding,
        "lm_head.weight": parts.head,
        "model.norm.weight": parts.norm,
        "model.join.weight": head.join.weight.detach(),
        "model.embedding_norm.weight": head.embedding_norm.weight.detach(),
        "model.feature_norm.weight": head.feature_norm.weight.detach(),
    }


class TorchPass:
    """For every head and machine; what the kernel's passes are compared with."""

    def __init__(self, running: RunningHead, num_blocks: int) -> None:
        assert isinstance(running.head, EagleHead)
        self._head = running.head
        self._window = running.shape.window
        self._linears = Linears(running)
        shape = running.shape
        self._keys, self._values = torch.zeros(2, shape.kv_heads, num_blocks * BLOCK_SIZE, shape.head_size)

    @torch.inference_mode()
    def __call__(self, segments: Sequence[Segment], features: Tensor) -> list[Output]:
        layer = self._head.layer
        counts = [len(segment.token_ids) for segment in segments]
        token_ids = list(itertools.chain.from_iterable(segment.token_ids for segment in segments))
        depths = torch.cat([_depths(segment) for segment in segments])
        x = self._head.inputs(self._linears.embeddings(token_ids), features)
        query, key, value = (part.split(counts, 1) for part in layer.query_key_value(x, depths))
        parts = zip(segments, query, key, value, depths.split(counts), strict=True)
        attended = [self._attend(*part) for part in parts]
        made = self._head.outputs(layer.finish(x, torch.cat(attended, 1))).split(counts)
        wanted = [segment.logits for segment in segments]
        said = torch.cat([each[len(each) - count :] for each, count in zip(made, wanted, strict=True)])
        logits = self._linears.logits(said).split(wanted)
        return [Output(*pair) for pair in zip(logits, made, strict=True)]

    def _attend(self, segment: Segment, query: Tensor, key: Tensor, value: Tensor, depths: Tensor) -> Tensor:
        """[heads, rows, size]; the rows' keys and values are kept."""
        end = segment.start + len(segment.token_ids)
        first = torch.tensor(segment.blocks).unsqueeze(1) * BLOCK_SIZE
        slots = (first + torch.arange(BLOCK_SIZE)).flatten()[:end]
        self._keys[:, slots[segment.start :]] = key
        self._values[:, slots[segment.start :]] = value
        keys, values = self._keys[:, slots], self._values[:, slots]
        mask = _seen(segment, depths, self._window).repeat(len(query) // len(keys), 1)
        folded = query.reshape(len(keys), -1, query.shape[-1])
        attended = F.scaled_dot_product_attention(folded[None], keys[None], values[None], attn_mask=mask)
        return attended.view(query.shape)


def _depths(segment: Segment) -> Tensor:
    """int64 [rows], the position of each."""
    chain = len(segment.token_ids) - len(segment.parents)
    depths = list(range(segment.start, segment.start + chain))
    for parent in segment.parents:
        depths.append(segment.start + chain if parent < 0 else depths[chain + parent] + 1)
    return torch.tensor(depths)


def _seen(segment: Segment, depths: Tensor, window: int) -> Tensor:
    """[rows, slots up to the last row's]: of what is before a row, and of its own branch, the window."""
    chain, count = len(segment.token_ids) - len(segment.parents), len(segment.token_ids)
    mask = torch.zeros(count, segment.start + count, dtype=torch.bool)
    mask[:, : segment.start + chain] = True
    for row in range(chain):
        mask[row, segment.start + row + 1 :] = False
    for node, parent in enumerate(segment.parents):
        row, first = chain + node, segment.start + chain
        if parent >= 0:
            mask[row, first:] = mask[chain + parent, first:]
        mask[row, first + node] = True
    positions = torch.cat((torch.arange(segment.start), depths))
    return mask & (positions > depths.unsqueeze(1) - window)
