"""Each path of a tree of guesses has, in the fused runner, what it has as a chain."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from common.model.batch import Move, Segment
from common.model.fused.runner import FusedRunner
from tests.support import fused
from tests.support.fused import VOCABULARY
from tests.support.models import reference_logits
from tests.support.streams import token_ids

TOLERANCE = 1e-4
WEIGHTS = ("float32", "bfloat16", "int8", "int4")
ARCHITECTURES = ("llama", "llama with three heads to a key head", "mistral with a window")
SHAPES = {
    "a fan": [-1, -1, -1],
    "a chain": [-1, 0, 1, 2],
    "a comb": [-1, -1, 0, 0, 2, 2, 4],
    "a tree deeper than a block": [-1, *range(20), 3, 21],
    "several roots with branches": [-1, -1, 1, 1, 0, 3, 5, 5, 2],
}


def path(parents: Sequence[int], node: int) -> list[int]:
    """The nodes from the root's child to ``node``."""
    nodes = [node]
    while parents[nodes[-1]] >= 0:
        nodes.append(parents[nodes[-1]])
    return nodes[::-1]


def run_tree(
    runner: FusedRunner, before: Sequence[int], chunk: int, parents: Sequence[int], guesses: Sequence[int]
) -> Tensor:
    """The nodes' logits, ``chunk`` of the tokens before them being in the same segment."""
    blocks, start = [9, 3, 14, 6, 11], len(before) - chunk
    if start:
        runner.run([Segment(before[:start], 0, blocks, logits=0)])
    tokens = [*before[start:], *guesses]
    segments = [
        Segment(token_ids(random.Random(5), 11, VOCABULARY), 0, [20], logits=2),
        Segment(tokens, start, blocks, logits=len(guesses), parents=parents),
    ]
    return runner.run(segments)[1].logits


@pytest.fixture(scope="module", params=ARCHITECTURES)
def model(request: pytest.FixtureRequest) -> Any:
    return fused.model(request.param)


@pytest.mark.parametrize("chunk", [0, 1, 14])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_node_has_the_logits_of_the_chain_that_leads_to_it(model: Any, shape: str, chunk: int) -> None:
    chance, parents = random.Random(len(shape)), SHAPES[shape]
    before = token_ids(chance, chance.randint(15, 34), VOCABULARY)
    guesses = token_ids(chance, len(parents), VOCABULARY)
    logits = run_tree(fused.runner_of(model, threads=2), before, chunk, parents, guesses)
    for node in range(len(parents)):
        chain = [*before, *(guesses[step] for step in path(parents, node))]
        expected = reference_logits(model, chain)[-1]
        torch.testing.assert_close(logits[node], expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_path_of_a_tree_has_the_bits_of_the_chain(model: Any, weights: str) -> None:
    runner = fused.runner_of(model, weights)
    for seed in range(6):
        chance = random.Random(seed)
        parents = [chance.randint(-1, node - 1) for node in range(chance.randint(1, 24))]
        before = token_ids(chance, chance.randint(1, 40), VOCABULARY)
        guesses = token_ids(chance, len(parents), VOCABULARY)
        logits = run_tree(runner, before, chance.randint(0, len(before)), parents, guesses)
        for node in range(len(parents)):
            chain = [*before, *(guesses[step] for step in path(parents, node))]
            alone = runner.run([Segment(chain, 0, [40, 41, 42, 43, 44], logits=1)])[0].logits[0]
            assert torch.equal(logits[node], alone)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_an_accepted_path_moved_into_place_continues_as_if_it_had_been_a_chain(
    model: Any, weights: str
) -> None:
    runner, parents, blocks = fused.runner_of(model, weights), [-1, -1, 1, 0, 2, 2, 5], [9, 3, 14]
    chance = random.Random(3)
    before, guesses = token_ids(chance, 13, VOCABULARY), token_ids(chance, len(parents), VOCABULARY)
    runner.run([Segment([*before, *guesses], 0, blocks, logits=0, parents=parents)])
    accepted = path(parents, 6)
    slots = [blocks[place // 16] * 16 + place % 16 for place in range(48)]
    moves = [Move(slots[13 + node], slots[13 + depth]) for depth, node in enumerate(accepted)]
    bonus = token_ids(chance, 3, VOCABULARY)
    after = runner.run([Segment(bonus, 13 + len(accepted), blocks, logits=3)], moves)[0].logits
    chain = [*before, *(guesses[node] for node in accepted), *bonus]
    assert torch.equal(after, runner.run([Segment(chain, 0, [40, 41], logits=3)])[0].logits)
