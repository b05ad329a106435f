"""Multi-round rejection yields the target's distribution for every honest tree, and broken rounds do not.

Without an engine: two tokens of a target that is a table, many times over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import torch
from scipy import stats

from common import noise, sampling, trees
from common.draft_types import Block, SparseDistribution
from common.types import SamplingParams
from tests.statistical.drafts import Proposal, adversarial, bad, good
from tests.statistical.reference import Array
from verify_service.acceptance import Acceptance, TargetRows, Verdict, accept_rejection

SAMPLES = 3000
VOCABULARY = 6
PARAMS = SamplingParams(temperature=1)


def overconfident(p: Array, position: int) -> Array:
    """All but sure of the target's favourite."""
    favourite = np.eye(len(p))[p.argmax()]
    rest = p**2 * (1 - favourite)
    return np.asarray(0.8 * favourite + 0.2 * rest / rest.sum())


PROPOSALS: dict[str, Proposal] = {
    "good": good,
    "bad": bad,
    "adversarial": adversarial,
    "overconfident": overconfident,
}


@cache
def p_after(path: tuple[int, ...]) -> Array:
    return np.random.default_rng((17, *path)).dirichlet(np.full(VOCABULARY, 0.8))


@cache
def q_of(proposal: Proposal, path: tuple[int, ...], taken: tuple[int, ...]) -> SparseDistribution | None:
    """What follows ``path`` is drawn from this after ``taken``."""
    if taken:
        before = q_of(proposal, path, taken[:-1])
        return before and sampling.without(before, taken[-1])
    return sampling.draft_distribution(torch.from_numpy(proposal(p_after(path), sum(path))))


@dataclass
class Tree:
    """A tree under way, its tokens drawn one by one as an honest draft would."""

    seed: int
    proposal: Proposal
    token_ids: list[int]
    parents: list[int]
    declared: list[SparseDistribution]

    def path(self, node: int) -> tuple[int, ...]:
        return tuple(self.token_ids[step] for step in trees.path(self.parents, node))

    def q(self, parent: int) -> SparseDistribution | None:
        """What the next child of ``parent`` is drawn from."""
        siblings = [node for node, other in enumerate(self.parents) if other == parent]
        return q_of(self.proposal, self.path(parent), tuple(self.token_ids[node] for node in siblings))

    def add(self, parent: int) -> int | None:
        """The new node, where there is a token left to draw."""
        q = self.q(parent)
        if q is None:
            return None
        draw = trees.draws([*self.parents, parent])[-1]
        token_id = sampling.choose_sparse(q, self.seed, len(self.path(parent)), draw)
        self.token_ids.append(token_id)
        self.parents.append(parent)
        self.declared.append(q)
        return len(self.token_ids) - 1

    def drop_last(self) -> None:
        for column in (self.token_ids, self.parents, self.declared):
            column.pop()

    def block(self) -> Block:
        return Block(
            1, 0, tuple(self.token_ids), parents=tuple(self.parents), distributions=tuple(self.declared)
        )


def three_siblings(tree: Tree) -> None:
    for _ in range(3):
        tree.add(-1)


def all_there_are(tree: Tree) -> None:
    for _ in range(VOCABULARY):
        tree.add(-1)


def bushy(tree: Tree) -> None:
    for parent in (-1, -1, 0, 1, 0, 1):
        tree.add(parent)


def deeper_where_the_draw_was_likely(tree: Tree) -> None:
    """What is drawn next depends on what was drawn, across branches; never on the token in question."""
    first, q = tree.add(-1), tree.declared[0]
    assert first is not None
    below = tree.add(first)
    if q.probabilities[q.token_ids.index(tree.token_ids[first])] < 0.3 or tree.token_ids[-1] % 2:
        tree.add(-1)
    if below is not None and tree.token_ids[below] < 3:
        tree.add(first)
    tree.add(-1)


SHAPES: dict[str, Callable[[Tree], None]] = {
    shape.__name__: shape
    for shape in (three_siblings, all_there_are, bushy, deeper_where_the_draw_was_likely)
}


def outcomes(
    proposal: Proposal, shape: Callable[[Tree], None], accept: Acceptance = accept_rejection
) -> Array:
    """How often each pair of tokens came."""
    counts = np.zeros((VOCABULARY, VOCABULARY))
    for seed in range(SAMPLES):
        tree = Tree(noise.draft_seed(seed), proposal, [], [], [])
        shape(tree)
        block = tree.block()
        paths = [tree.path(node) for node in range(-1, len(tree.token_ids))]
        logits = torch.from_numpy(np.log(np.stack([p_after(path) for path in paths])))
        verdict = accept(TargetRows(logits, PARAMS, [], 0, block), block, seed)
        tokens = [*(block.token_ids[node] for node in verdict.nodes), verdict.token]
        if len(tokens) == 1:
            p = torch.from_numpy(p_after(tuple(tokens)))
            tokens.append(sampling.choose(p, seed, 1))
        counts[tokens[0], tokens[1]] += 1
    return counts


def p_value(counts: Array) -> float:
    expected = np.stack([p_after(())[t] * p_after((t,)) for t in range(VOCABULARY)]) * counts.sum()
    common = expected >= 5
    cells = np.append(counts[common], counts[~common].sum())
    return float(stats.chisquare(cells, np.append(expected[common], expected[~common].sum())).pvalue)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("proposal", PROPOSALS)
def test_pairs_of_tokens_have_the_targets_distribution(proposal: str, shape: str) -> None:
    assert p_value(outcomes(PROPOSALS[proposal], SHAPES[shape])) > 0.001


@pytest.mark.parametrize("shape", ["three_siblings", "bushy"])
@pytest.mark.parametrize("proposal", PROPOSALS)
def test_guesses_without_distributions_count_as_certain_and_bias_nothing(proposal: str, shape: str) -> None:
    def accept(target: TargetRows, block: Block, seed: int) -> Verdict:
        return accept_rejection(target, replace(block, distributions=()), seed)

    assert p_value(outcomes(PROPOSALS[proposal], SHAPES[shape], accept)) > 0.001


def test_the_chi_square_notices_a_residual_from_which_q_is_not_taken_away() -> None:
    def mutant(target: TargetRows, block: Block, seed: int) -> Verdict:
        return accept_rejection(target, block, seed, residual=lambda p, q: p)

    assert p_value(outcomes(bad, three_siblings, mutant)) < 1e-6


def rounds(
    target: TargetRows,
    block: Block,
    seed: int,
    *,
    draws: Callable[[Sequence[int]], Sequence[int]] = trees.draws,
    judged_by_residual: bool = True,
) -> Verdict:
    """Multi-round rejection written once more, with what a mutation changes as a parameter."""
    nodes: list[int] = []
    while True:
        row = nodes[-1] + 1 if nodes else 0
        p = left = target.probabilities(row)
        for node in [node for node, parent in enumerate(block.tree) if parent == row - 1]:
            guess, q = block.token_ids[node], block.distributions[node]
            given = q.probabilities[q.token_ids.index(guess)] / sum(q.probabilities)
            judge = left if judged_by_residual else p
            if noise.accept_uniform(seed, len(nodes), draws(block.tree)[node]) * given < float(judge[guess]):
                nodes.append(node)
                break
            left = sampling.residual(left, q)
        else:
            return Verdict(tuple(nodes), sampling.choose(left, seed, len(nodes)))


@pytest.mark.parametrize("shape", ["three_siblings", "bushy"])
def test_the_rounds_written_once_more_give_the_same_verdicts(shape: str) -> None:
    def both(target: TargetRows, block: Block, seed: int) -> Verdict:
        verdict = rounds(target, block, seed)
        assert verdict == accept_rejection(target, block, seed)
        return verdict

    assert p_value(outcomes(bad, SHAPES[shape], both)) > 0.001


def test_the_chi_square_notices_one_uniform_for_all_siblings() -> None:
    def mutant(target: TargetRows, block: Block, seed: int) -> Verdict:
        return rounds(target, block, seed, draws=lambda parents: [0] * len(parents))

    assert p_value(outcomes(overconfident, three_siblings, mutant)) < 1e-6


def test_the_chi_square_notices_siblings_judged_by_p_instead_of_what_was_left_of_it() -> None:
    def mutant(target: TargetRows, block: Block, seed: int) -> Verdict:
        return rounds(target, block, seed, judged_by_residual=False)

    assert p_value(outcomes(bad, three_siblings, mutant)) < 1e-6


def test_the_chi_square_notices_siblings_that_declare_the_first_ones_q() -> None:
    """Drawn without replacement, declared as if with."""

    def mutant(target: TargetRows, block: Block, seed: int) -> Verdict:
        return accept_rejection(target, replace(block, distributions=block.distributions[:1] * 3), seed)

    assert p_value(outcomes(bad, three_siblings, mutant)) < 1e-6


def test_the_chi_square_notices_a_draft_that_keeps_a_guess_for_what_it_turned_out_to_be() -> None:
    """Why the wire contract forbids it: what is kept was not drawn from the q it declares."""

    def picky(tree: Tree) -> None:
        for _ in range(3):
            tree.add(-1)
            q = tree.declared[-1]
            if q.probabilities[q.token_ids.index(tree.token_ids[-1])] < max(q.probabilities):
                tree.drop_last()
                return

    assert p_value(outcomes(bad, picky)) < 1e-6
