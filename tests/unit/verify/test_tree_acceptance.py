"""Which branch of a tree stands, from target rows made by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from common import noise, sampling, trees
from common.draft_types import Block, SparseDistribution
from common.types import SamplingParams
from verify_service.acceptance import Acceptance, TargetRows, Verdict, accept_keyed, accept_rejection

GREEDY = SamplingParams(temperature=0)
WARM = SamplingParams(temperature=1)
COMMITTED = [1, 2, 3]
VOCABULARY = 6
BOTH = pytest.mark.parametrize("accept", [accept_keyed, accept_rejection])
SEEDS = st.integers(0, 2**64 - 1)

#  root ─┬─ 0: 4 ─── 2: 5
#        └─ 1: 2 ─┬─ 3: 4 ─── 5: 0
#                 └─ 4: 3
TREE = Block(1, 3, (4, 2, 5, 4, 3, 0), parents=(-1, -1, 0, 1, 1, 3))


def rows(logits: Tensor, block: Block, params: SamplingParams = WARM) -> TargetRows:
    return TargetRows(logits, params, COMMITTED, 2, block)


def says(*tokens: int) -> Tensor:
    """Row 0 is all but certain of tokens[0], the row of guess i of tokens[i + 1]."""
    return torch.nn.functional.one_hot(torch.tensor(tokens), VOCABULARY).float() * 50


@BOTH
@pytest.mark.parametrize("params", [GREEDY, WARM])
@pytest.mark.parametrize(
    ("target", "verdict"),
    [
        ((0, 0, 0, 0, 0, 0, 0), Verdict((), 0)),
        ((4, 0, 0, 0, 0, 0, 0), Verdict((0,), 0)),
        ((4, 5, 0, 1, 0, 0, 0), Verdict((0, 2), 1)),
        ((2, 0, 1, 0, 0, 0, 0), Verdict((1,), 1)),
        ((2, 0, 3, 0, 0, 1, 0), Verdict((1, 4), 1)),
        ((2, 5, 4, 0, 5, 0, 0), Verdict((1, 3), 5)),
        ((2, 5, 4, 0, 0, 0, 1), Verdict((1, 3, 5), 1)),
    ],
)
def test_the_branch_that_holds_the_targets_choices_stands(
    accept: Acceptance, params: SamplingParams, target: tuple[int, ...], verdict: Verdict
) -> None:
    assert accept(rows(says(*target), TREE, params), TREE, 17) == verdict
    assert verdict.accepted == len(verdict.nodes)


def test_a_row_sees_its_own_branch_only() -> None:
    target = rows(says(0, 0, 0, 0, 0, 0, 0), TREE)
    assert [target.path(row) for row in range(7)] == [(), (4,), (2,), (4, 5), (2, 4), (2, 3), (2, 4, 0)]
    assert [target.position(row) for row in range(7)] == [3, 4, 4, 5, 5, 5, 6]


def test_penalties_inside_a_tree_see_the_guesses_of_their_own_branch() -> None:
    params = SamplingParams(temperature=0, presence_penalty=2)
    logits = torch.tensor([[0.0, 0, 0, 0, 3, 2]] * 7)
    target = rows(logits, TREE, params)
    assert [target.choice(row, 1) for row in range(7)] == [4, 5, 4, 4, 5, 4, 5]


@given(SEEDS, st.integers(0, 2**32 - 1))
def test_keyed_delivers_the_targets_own_choices_whatever_the_tree(seed: int, salt: int) -> None:
    logits = torch.randn(7, VOCABULARY, generator=torch.Generator().manual_seed(salt))
    verdict = accept_keyed(rows(logits, TREE), TREE, seed)
    row = 0
    for depth, token in enumerate([*(TREE.token_ids[node] for node in verdict.nodes), verdict.token]):
        assert token == sampling.choose(torch.softmax(logits[row].double(), -1), seed, 3 + depth)
        row = verdict.nodes[depth] + 1 if depth < len(verdict.nodes) else -1
    followers = trees.children(TREE.tree)[verdict.nodes[-1] + 1 if verdict.nodes else 0]
    assert verdict.token not in {TREE.token_ids[node] for node in followers}


@given(SEEDS)
def test_certain_siblings_are_taken_with_the_targets_probability_of_what_is_left(seed: int) -> None:
    p = torch.tensor([0.4, 0.3, 0.2, 0.1, 0, 0], dtype=torch.float64)
    block = Block(1, 3, (1, 0), parents=(-1, -1))
    verdict = accept_rejection(rows(p.log().repeat(3, 1), block), block, seed)
    if noise.accept_uniform(seed, 3, 0) < 0.3:
        assert verdict.nodes == (0,)
    elif noise.accept_uniform(seed, 3, 1) < 0.4 / 0.7:
        assert verdict.nodes == (1,)
    else:
        assert verdict.nodes == ()
        assert verdict.token in {2, 3}


@given(SEEDS)
def test_siblings_that_cover_all_the_target_may_say_leave_it_nothing_of_its_own(seed: int) -> None:
    block = Block(1, 3, (3, 2, 1, 0), parents=(-1,) * 4)
    logits = torch.tensor([[0.0, 1, 2, 3, -torch.inf, -torch.inf]] * 5)
    assert accept_rejection(rows(logits, block), block, seed).accepted == 1


@given(SEEDS)
def test_a_sibling_is_judged_by_its_own_q_against_what_the_first_left(seed: int) -> None:
    """p is uniform over 4; the first q is sure of token 0, the second of token 1 and 2 alike."""
    p = torch.tensor([0.25, 0.25, 0.25, 0.25, 0, 0]).log().repeat(3, 1)
    qs = (SparseDistribution((0,), (1.0,)), SparseDistribution((1, 2), (0.5, 0.5)))
    block = Block(1, 3, (0, 1), parents=(-1, -1), distributions=qs)
    verdict = accept_rejection(rows(p, block), block, seed)
    if noise.accept_uniform(seed, 3, 0) < 0.25:
        assert verdict.nodes == (0,)
    elif noise.accept_uniform(seed, 3, 1) * 0.5 < 1 / 3:
        assert verdict.nodes == (1,)
    else:
        assert (verdict.nodes, verdict.token) == ((), 3)
