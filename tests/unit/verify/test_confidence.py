"""Which guesses are sure enough to be verified."""

from __future__ import annotations

from common.draft_types import Block, SparseDistribution
from verify_service.drafts.confidence import sure_enough

# 0 ─┬─ 2 ── 4
#    └─ 3
# 1 ─── 5
TREE = Block(
    1,
    9,
    (5, 6, 7, 8, 9, 4),
    parents=(-1, -1, 0, 0, 2, 1),
    confidences=(0.6, 0.2, 0.1, 0.04, 0.1, 0.15),
    probabilities=(1.0,) * 6,
)
CHAIN = Block(1, 9, (5, 6, 7), confidences=(0.9, 0.2, 0.18))


def spread(*tops: float) -> tuple[SparseDistribution, ...]:
    """A q for each guess with so much on its likeliest token."""
    return tuple(SparseDistribution((1, 2), (top, 1 - top)) for top in tops)


def test_a_chain_ends_before_its_first_unsure_guess() -> None:
    assert sure_enough(CHAIN, 0.25, drawn=False) == (0,)
    assert CHAIN.only((0,)) == CHAIN.prefix(1)


def test_a_guess_counts_given_that_what_is_before_it_stands() -> None:
    long = Block(1, 9, (5, 6, 7), confidences=(0.5, 0.2, 0.1))
    assert sure_enough(long, 0.25, drawn=False) == (0, 1, 2)


def test_an_unsure_position_of_a_tree_goes_with_all_its_guesses_and_what_follows_them() -> None:
    """After guess 0 the choices have 0.15 of 0.6 together, no more than 0.25 of it."""
    kept = sure_enough(TREE, 0.25, drawn=False)
    assert kept == (0, 1, 5)
    cut = TREE.only(kept)
    assert (cut.token_ids, cut.parents) == ((5, 6, 4), (-1, -1, 1))
    assert (cut.confidences, cut.probabilities) == ((0.6, 0.2, 0.15), (1.0, 1.0, 1.0))


def test_siblings_are_as_sure_as_they_are_together() -> None:
    wide = Block(1, 9, (5, 6, 7), parents=(-1, -1, -1), confidences=(0.2, 0.15, 0.1))
    assert sure_enough(wide, 0.44, drawn=False) == (0, 1, 2)
    assert sure_enough(wide, 0.46, drawn=False) == ()


def test_a_block_without_confidences_is_not_cut() -> None:
    block = Block(1, 9, (5, 6, 7))
    assert sure_enough(block, 1.0, drawn=False) == (0, 1, 2)
    assert block.only((0, 1, 2)) is block


def test_at_no_least_confidence_all_is_kept() -> None:
    assert sure_enough(TREE, 0.0, drawn=False) == (0, 1, 2, 3, 4, 5)


def test_a_guess_with_a_q_is_measured_by_that_and_not_by_what_its_draft_says_of_it() -> None:
    block = Block(1, 9, (1, 2, 1), distributions=spread(0.81, 0.64, 0.5), confidences=(0.0, 0.0, 0.0))
    assert sure_enough(block, 0.91, drawn=True) == ()
    assert sure_enough(block, 0.85, drawn=True) == (0,)
    assert sure_enough(block, 0.75, drawn=True) == (0, 1)
    assert sure_enough(block, 0.7, drawn=True) == (0, 1, 2)


def test_what_a_later_sibling_is_drawn_from_says_nothing_about_the_position() -> None:
    """It depends on what the first one turned out to be."""
    for later in (0.51, 0.99):
        block = Block(1, 9, (1, 2), parents=(-1, -1), distributions=spread(0.64, later))
        assert sure_enough(block, 0.79, drawn=True) == (0, 1)
        assert sure_enough(block, 0.81, drawn=True) == ()
