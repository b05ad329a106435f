"""Which guesses are sure enough to be verified."""

from __future__ import annotations

import pytest

from common.draft_types import Block, SparseDistribution
from verify_service.drafts.confidence import sure_enough

# 0 ─┬─ 2 ── 4
#    └─ 3
# 1
TREE = Block(
    1,
    9,
    (5, 6, 7, 8, 9),
    parents=(-1, -1, 0, 0, 2),
    confidences=(0.9, 0.2, 0.1, 0.5, 0.8),
    probabilities=(1.0,) * 5,
)
CHAIN = Block(1, 9, (5, 6, 7), confidences=(0.9, 0.2, 0.8))


def spread(*tops: float) -> tuple[SparseDistribution, ...]:
    """A q for each guess with so much on its likeliest token."""
    return tuple(SparseDistribution((1, 2), (top, 1 - top)) for top in tops)


def test_a_chain_ends_before_its_first_unsure_guess() -> None:
    assert sure_enough(CHAIN, 0.25) == (0,)
    assert CHAIN.only((0,)) == CHAIN.prefix(1)


def test_an_unsure_guess_of_a_tree_takes_its_descendants_with_it_and_nothing_else() -> None:
    kept = sure_enough(TREE, 0.25)
    assert kept == (0, 3)
    cut = TREE.only(kept)
    assert (cut.token_ids, cut.parents) == ((5, 8), (-1, 0))
    assert (cut.confidences, cut.probabilities) == ((0.9, 0.5), (1.0, 1.0))


def test_a_block_without_confidences_is_not_cut() -> None:
    block = Block(1, 9, (5, 6, 7))
    assert sure_enough(block, 1.0) == (0, 1, 2)
    assert block.only((0, 1, 2)) is block


def test_at_no_least_confidence_all_is_kept() -> None:
    assert sure_enough(TREE, 0.0) == (0, 1, 2, 3, 4)


def test_a_guess_with_a_q_is_measured_by_that_and_not_by_what_its_draft_says_of_it() -> None:
    block = Block(1, 9, (1, 2, 1), distributions=spread(0.81, 0.64, 0.5), confidences=(0.0, 0.0, 0.0))
    assert sure_enough(block, 0.9) == (0,)
    assert sure_enough(block, 0.72) == (0, 1)
    assert sure_enough(block, 0.5) == (0, 1, 2)


@pytest.mark.parametrize(("least", "kept"), [(0.72, (0, 2)), (0.19, (0, 2)), (0.17, (0, 1, 2))])
def test_a_sibling_with_a_q_counts_what_the_earlier_one_leaves(least: float, kept: tuple[int, ...]) -> None:
    """sqrt(0.64) = 0.8 of the target's mass goes to the first, sqrt(0.81) = 0.9 of the rest to the second."""
    block = Block(1, 9, (1, 2, 1), parents=(-1, -1, 0), distributions=spread(0.64, 0.81, 0.81))
    assert sure_enough(block, least) == kept
