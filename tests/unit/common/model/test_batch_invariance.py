"""The fused runner: a sequence's logits have the same bits whatever they are computed with, for all weights.

Each test compares with ``alone``: the whole sequence in one pass, in neighbouring blocks, by one thread.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from common.model.batch import Segment
from common.model.fused.runner import FusedRunner
from tests.support import fused
from tests.support.fused import VOCABULARY
from tests.support.streams import Neighbouring, Pool, Scattered, Stream, Traffic, right, token_ids

LENGTH = 61
BLOCKS = [11, 3, 30, 7, 22]
ARCHITECTURES = ("llama with three heads to a key head", "mistral with a window")


@pytest.fixture(scope="module", params=ARCHITECTURES)
def model(request: pytest.FixtureRequest) -> Any:
    return fused.model(request.param)


@pytest.fixture(scope="module", params=["float32", "bfloat16", "int8", "int4"])
def weights(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def runner(model: Any, weights: str) -> FusedRunner:
    return fused.runner_of(model, weights)


@pytest.fixture(scope="module")
def tokens() -> list[int]:
    return ids(1, LENGTH)


@pytest.fixture(scope="module")
def alone(runner: FusedRunner, tokens: list[int]) -> Tensor:
    return runner.run([Segment(tokens, 0, [0, 1, 2, 3], logits=LENGTH)])[0].logits


def ids(seed: int, count: int) -> list[int]:
    return token_ids(random.Random(seed), count, VOCABULARY)


@pytest.mark.parametrize("place", range(8))
def test_among_seven_others(runner: FusedRunner, tokens: list[int], alone: Tensor, place: int) -> None:
    chance = random.Random(place)
    segments = [
        Segment(ids(100 + other, chance.randint(1, 32)), 0, [32 + 2 * other, 33 + 2 * other], logits=1)
        for other in range(7)
    ]
    segments.insert(place, Segment(tokens, 0, BLOCKS, logits=LENGTH))
    assert torch.equal(runner.run(segments)[place].logits, alone)


@pytest.mark.parametrize("guesses", [0, 1, 4, 16])
def test_with_guesses_behind(runner: FusedRunner, tokens: list[int], alone: Tensor, guesses: int) -> None:
    runner.run([Segment(tokens[:-1], 0, BLOCKS, logits=0)])
    segment = Segment([tokens[-1], *ids(2, guesses)], LENGTH - 1, BLOCKS, logits=guesses + 1)
    assert torch.equal(runner.run([segment])[0].logits[0], alone[-1])


@pytest.mark.parametrize("guesses", [1, 4, 16])
def test_right_guesses_have_the_bits_of_tokens_decoded_one_by_one(
    runner: FusedRunner, tokens: list[int], alone: Tensor, guesses: int
) -> None:
    start = LENGTH - guesses - 1
    runner.run([Segment(tokens[:start], 0, BLOCKS, logits=0)])
    together = runner.run([Segment(tokens[start:], start, BLOCKS, logits=guesses + 1)])[0].logits
    assert torch.equal(together, alone[start:])
    for place in range(start, LENGTH):
        one = runner.run([Segment([tokens[place]], place, BLOCKS, logits=1)])[0].logits
        assert torch.equal(one[0], alone[place])


@pytest.mark.parametrize("seed", range(5))
def test_the_prompt_cut_anywhere(runner: FusedRunner, tokens: list[int], alone: Tensor, seed: int) -> None:
    chance = random.Random(seed)
    cuts = sorted(chance.sample(range(1, LENGTH), chance.randint(1, 8)))
    for start, end in zip([0, *cuts], [*cuts, LENGTH], strict=True):
        logits = runner.run([Segment(tokens[start:end], start, BLOCKS, logits=end - start)])[0].logits
        assert torch.equal(logits, alone[start:end])


def test_behind_a_prefix_that_another_sequence_computed(
    runner: FusedRunner, tokens: list[int], alone: Tensor
) -> None:
    other = [*tokens[:32], *ids(3, 9)]
    runner.run([Segment(other[:20], 0, [40, 50, 45], logits=0)])
    runner.run([Segment(other[20:], 20, [40, 50, 45], logits=1), Segment(ids(4, 5), 0, [60], logits=1)])
    warm = runner.run([Segment(tokens[32:], 32, [40, 50, 10, 5], logits=LENGTH - 32)])[0].logits
    assert torch.equal(warm, alone[32:])


def test_in_scattered_blocks(runner: FusedRunner, tokens: list[int], alone: Tensor) -> None:
    logits = runner.run([Segment(tokens, 0, [63, 0, 31, 2], logits=LENGTH)])[0].logits
    assert torch.equal(logits, alone)


@pytest.mark.parametrize("threads", [2, 3])
def test_by_any_number_of_threads(
    model: Any, weights: str, tokens: list[int], alone: Tensor, threads: int
) -> None:
    several = fused.runner_of(model, weights, threads=threads)
    for _ in range(3):
        segments = [Segment(ids(6, 9), 0, [20], logits=1), Segment(tokens, 0, BLOCKS, logits=LENGTH)]
        assert torch.equal(several.run(segments)[1].logits, alone)


@pytest.mark.parametrize("pool", [Scattered, Neighbouring])
def test_in_any_traffic(
    model: Any, weights: str, tokens: list[int], alone: Tensor, pool: Callable[[random.Random], Pool]
) -> None:
    chance = random.Random(5)
    traffic = Traffic(chance, pool(chance), 16, VOCABULARY)
    ours = Stream(tokens)
    others = [Stream(traffic.token_ids(chance.randint(1, 60))) for _ in range(7)]
    for stream, segment, output in traffic.run(fused.runner_of(model, weights, threads=2), [ours, *others]):
        first = len(segment.token_ids) - segment.logits
        agreeing = right(stream, segment) - first
        if stream is ours and agreeing > 0:
            expected = alone[segment.start + first :][:agreeing]
            assert torch.equal(output.logits[:agreeing], expected)
