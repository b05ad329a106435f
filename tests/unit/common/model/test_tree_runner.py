"""A tree in one pass: every node has the logits that transformers gives its branch alone."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from common import trees
from common.model.batch import Move, Segment
from common.model.block_manager import BLOCK_SIZE
from common.model.runner import ModelRunner
from tests.support import streams
from tests.support.models import reference_logits, tiny_model
from tests.support.streams import NUM_BLOCKS
from tests.unit.common.model.test_runner import CONFIGS, TOLERANCE, VOCABULARY


def token_ids(chance: random.Random, count: int) -> list[int]:
    return streams.token_ids(chance, count, VOCABULARY)


def random_tree(chance: random.Random, count: int) -> tuple[int, ...]:
    return tuple(chance.randint(-1, node - 1) for node in range(count))


def assert_rows_are_those_of_the_branches(
    reference: Any, context: list[int], nodes: list[int], parents: tuple[int, ...], logits: torch.Tensor
) -> None:
    """``logits``: the row of the context's last token, then one per node."""
    for row in range(len(nodes) + 1):
        branch = [nodes[step] for step in trees.path(parents, row - 1)]
        expected = reference_logits(reference, [*context, *branch], attention="eager")[-1]
        torch.testing.assert_close(logits[row], expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("architecture", CONFIGS)
def test_every_branch_has_the_logits_it_has_alone(architecture: str) -> None:
    chance = random.Random(len(architecture))
    runner = ModelRunner(tiny_model(1, config=CONFIGS[architecture]()), NUM_BLOCKS)
    reference = tiny_model(1, attention="eager", config=CONFIGS[architecture]())
    blocks = iter(chance.sample(range(NUM_BLOCKS), NUM_BLOCKS))
    for length, pending in ((1, 1), (9, 1), (17, 1), (30, 4), (16, 16)):
        context, nodes = token_ids(chance, length), token_ids(chance, 12)
        parents, held = random_tree(chance, 12), [next(blocks) for _ in range(3)]
        if length > pending:
            runner.run([Segment(context[:-pending], 0, held, logits=0)])
        segment = Segment([*context[-pending:], *nodes], length - pending, held, 13, parents)
        (output,) = runner.run([segment])
        assert_rows_are_those_of_the_branches(reference, context, nodes, parents, output.logits)


def test_trees_chains_and_prompts_share_a_pass() -> None:
    chance = random.Random(5)
    runner = ModelRunner(tiny_model(2), NUM_BLOCKS)
    reference = tiny_model(2, attention="eager")
    contexts = [token_ids(chance, 20) for _ in range(4)]
    runner.run([Segment(c[:-1], 0, [3 * i, 3 * i + 1, 3 * i + 2], logits=0) for i, c in enumerate(contexts)])
    shapes = [random_tree(chance, 8), trees.chain(8), (), random_tree(chance, 3)]
    guesses = [token_ids(chance, len(parents)) for parents in shapes]
    segments = [
        Segment([c[-1], *nodes], 19, [3 * i, 3 * i + 1, 3 * i + 2], 1 + len(nodes), parents)
        for i, (c, nodes, parents) in enumerate(zip(contexts, guesses, shapes, strict=True))
    ]
    outputs = runner.run(segments)
    for context, nodes, parents, output in zip(contexts, guesses, shapes, outputs, strict=True):
        assert_rows_are_those_of_the_branches(reference, context, nodes, parents, output.logits)


@pytest.mark.parametrize("architecture", ["llama", "mistral with a window", "gpt2"])
def test_a_branch_moved_into_place_is_as_good_as_computed_there(architecture: str) -> None:
    chance = random.Random(3)
    runner = ModelRunner(tiny_model(1, config=CONFIGS[architecture]()), NUM_BLOCKS)
    reference = tiny_model(1, attention="eager", config=CONFIGS[architecture]())
    parents, blocks = (-1, -1, 1, 0, 2, 2, 5), [9, 4, 30]
    context, nodes = token_ids(chance, 13), token_ids(chance, 7)
    runner.run([Segment([*context, *nodes], 0, blocks, 8, parents)])
    slots = [block * BLOCK_SIZE + offset for block in blocks for offset in range(BLOCK_SIZE)]
    branch = trees.path(parents, 6)
    moves = [Move(slots[13 + node], slots[13 + depth]) for depth, node in enumerate(branch)]
    followed = [*context, *(nodes[node] for node in branch)]
    following = token_ids(chance, 4)
    (output,) = runner.run([Segment(following, len(followed), blocks, logits=4)], moves)
    expected = reference_logits(reference, [*followed, *following], attention="eager")[-4:]
    torch.testing.assert_close(output.logits, expected, atol=TOLERANCE, rtol=0)
