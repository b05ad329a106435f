"""Trees of guesses, by hand and against their definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from common import trees

#  root ─┬─ 0 ─── 2
#        └─ 1 ─┬─ 3 ─── 5
#              └─ 4
TREE = (-1, -1, 0, 1, 1, 3)

any_tree = st.lists(st.integers(0, 10**6), max_size=30).map(
    lambda numbers: tuple(number % (index + 1) - 1 for index, number in enumerate(numbers))
)


def test_a_tree_by_hand() -> None:
    assert trees.depths(TREE) == [0, 0, 1, 1, 1, 2]
    assert trees.children(TREE) == [[0, 1], [2], [3, 4], [], [5], [], []]
    assert [trees.path(TREE, node) for node in (-1, 0, 2, 5)] == [(), (0,), (0, 2), (1, 3, 5)]
    draws = trees.draws(TREE)
    assert draws[:3] == [0, 1, 0]
    assert draws[3:] == [trees.draw(1, 0), trees.draw(1, 1), trees.draw(trees.draw(1, 0), 0)]


def test_a_chain_is_a_tree_of_first_draws() -> None:
    assert trees.chain(4) == (-1, 0, 1, 2)
    assert trees.depths(trees.chain(4)) == [0, 1, 2, 3]
    assert trees.draws(trees.chain(4)) == [0, 0, 0, 0]
    assert trees.chain(0) == ()


@given(any_tree)
def test_a_path_goes_from_parent_to_child_and_is_as_long_as_its_end_is_deep(
    parents: tuple[int, ...],
) -> None:
    for node, depth in enumerate(trees.depths(parents)):
        path = trees.path(parents, node)
        assert len(path) == depth + 1
        assert [parents[step] for step in path] == [-1, *path[:-1]]


@given(any_tree)
def test_every_guess_is_a_child_of_its_parent_once_and_in_order(parents: tuple[int, ...]) -> None:
    found = trees.children(parents)
    assert [(child, row - 1) for row, siblings in enumerate(found) for child in siblings] == sorted(
        enumerate(parents), key=lambda pair: (pair[1], pair[0])
    )


@given(any_tree)
def test_guesses_at_one_depth_are_different_draws(parents: tuple[int, ...]) -> None:
    places = list(zip(trees.depths(parents), trees.draws(parents), strict=True))
    assert len(set(places)) == len(places)


@given(any_tree, st.integers(0, 30))
def test_a_longer_tree_does_not_change_the_draws_before(parents: tuple[int, ...], length: int) -> None:
    assert trees.draws(parents[:length]) == trees.draws(parents)[:length]
