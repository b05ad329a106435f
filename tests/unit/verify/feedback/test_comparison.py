"""What was drafted beside what was said."""

from __future__ import annotations

from common.draft_types import Block
from verify_service.feedback.comparison import compared


def test_guesses_stand_beside_the_tokens_of_their_positions() -> None:
    blocks = [Block(1, 2, (10, 11, 12)), Block(2, 4, (20,))]
    assert compared(blocks, [1, 2, 3, 4, 5, 6]) == ([10, 11, 12, 20], [3, 4, 5, 5])


def test_what_the_answer_never_came_to_is_left_out() -> None:
    assert compared([Block(1, 2, (10, 11, 12))], [1, 2, 3]) == ([10], [3])
    assert compared([Block(1, 3, (10,))], [1, 2, 3]) == ([], [])


def test_of_a_tree_the_first_branch_counts() -> None:
    tree = Block(1, 1, (10, 11, 12), parents=(-1, -1, 0))
    assert compared([tree], [1, 2, 3, 4]) == ([10, 12], [2, 3])
