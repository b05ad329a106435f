"""A head by the kernel says what it says by torch."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from common.model.batch import Output, Segment
from common.model.block_manager import BlockManager
from common.model.fused import library
from draft_service.heads import eagle_pass
from draft_service.heads.eagle_pass import EaglePass, TorchPass
from draft_service.heads.running import RunningHead
from draft_service.heads.shape import Shape
from draft_service.heads.target import TargetParts
from tests.support.heads import tiny_head, tiny_parts, tiny_shape
from tests.support.models import tiny_model

HIDDEN, TOKENS, KEPT = 64, 96, 48
NUM_BLOCKS, POSITIONS = 64, 256
PASSES = 12


def shape(window: int) -> Shape:
    return Shape("eagle", (1, 2), 3, KEPT, window, HIDDEN, 4, 2, 32, 128, 1e-5, 10_000.0)


def running_head(window: int, weights: str = "float32", threads: int = 1) -> RunningHead:
    head = tiny_head(shape(window), seed=3).eval().requires_grad_(False)
    chance = torch.Generator().manual_seed(5)

    def random_tensor(*sizes: int) -> Tensor:
        return torch.randn(*sizes, generator=chance)

    parts = TargetParts(random_tensor(TOKENS, HIDDEN), random_tensor(KEPT, HIDDEN), random_tensor(HIDDEN))
    return RunningHead(head, parts, torch.arange(KEPT), "random", weights, threads)


class Sequence:
    """Rows that grow by chains, with trees now and then whose rows are written over by the next pass."""

    def __init__(self, chance: random.Random, blocks: range) -> None:
        self._chance = chance
        self._blocks = blocks
        self._length = 0

    def segment(self) -> Segment:
        chance, chain = self._chance, self._chance.randint(1, 6)
        parents = [chance.randrange(-1, node) for node in range(chance.choice([0, 0, 4, 7]))]
        tokens = [chance.randrange(TOKENS) for _ in range(chain + len(parents))]
        start, self._length = self._length, self._length + chain
        if parents and start and chance.random() < 0.5:  # below what is there already
            tokens, self._length = tokens[chain:], start
        logits = chance.randint(0, len(tokens))
        return Segment(tokens, start, self._blocks, logits, parents, hidden=True)


def compare(one: EaglePass, other: EaglePass, check: Callable[[Tensor, Tensor], None]) -> None:
    chance, noise = random.Random(9), torch.Generator().manual_seed(2)
    share = NUM_BLOCKS // 4
    sequences = [Sequence(chance, range(index * share, (index + 1) * share)) for index in range(3)]
    for _ in range(PASSES):
        segments = [sequence.segment() for sequence in chance.sample(sequences, chance.randint(1, 3))]
        rows = sum(len(segment.token_ids) for segment in segments)
        features = torch.randn(rows, HIDDEN, generator=noise)
        left: list[Output] = one(segments, features)
        for made, wanted, segment in zip(left, other(segments, features), segments, strict=True):
            assert made.hidden is not None and wanted.hidden is not None
            assert made.logits.shape == (segment.logits, KEPT)
            check(made.logits, wanted.logits)
            check(made.hidden, wanted.hidden)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("window", [64, 5])
def test_in_chains_and_trees_of_many_sessions_it_is_the_same(window: int, threads: int) -> None:
    kernel = eagle_pass.make(running_head(window, threads=threads), NUM_BLOCKS, POSITIONS)
    assert not isinstance(kernel, TorchPass)

    def close(made: Tensor, wanted: Tensor) -> None:
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-4)

    compare(kernel, TorchPass(running_head(window), NUM_BLOCKS), close)


@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_fewer_bits_stay_close(weights: str) -> None:
    kernel = eagle_pass.make(running_head(64, weights), NUM_BLOCKS, POSITIONS)

    def alike(made: Tensor, wanted: Tensor) -> None:
        if len(made):
            assert float(torch.cosine_similarity(made.flatten(), wanted.flatten(), dim=0)) > 0.97

    compare(kernel, TorchPass(running_head(64), NUM_BLOCKS), alike)


def test_a_head_of_sizes_that_the_kernel_has_no_blocks_for_is_run_by_torch() -> None:
    model = tiny_model(1)
    head = tiny_head(tiny_shape()).eval().requires_grad_(False)
    small = RunningHead(head, tiny_parts(model), torch.arange(KEPT), "small")
    assert isinstance(eagle_pass.make(small, NUM_BLOCKS, POSITIONS), TorchPass)


def test_where_there_is_no_compiler_torch_runs_it_with_the_same_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unavailable(*_: object) -> EaglePass:
        raise library.Unavailable("no C++ compiler")

    monkeypatch.setattr(eagle_pass, "_by_kernel", unavailable)
    made = eagle_pass.make(running_head(64, "int8"), NUM_BLOCKS, POSITIONS)
    segment = Segment([3, 5], 0, range(BlockManager.blocks_for(2)), 2, hidden=True)
    (output,) = made([segment], torch.ones(2, HIDDEN))
    (same,) = TorchPass(running_head(64, "int8"), NUM_BLOCKS)([replace(segment)], torch.ones(2, HIDDEN))
    assert torch.equal(output.logits, same.logits)
