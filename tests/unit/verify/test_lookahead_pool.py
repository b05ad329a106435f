"""N-grams are kept within bounds and make trees of guesses."""

from __future__ import annotations

import random

from common import trees
from verify_service.drafts.lookahead.guessing import guess
from verify_service.drafts.lookahead.pool import Pool


def pool_of(*ngrams: tuple[int, ...], **bounds: int) -> Pool:
    pool = Pool(**bounds)
    for ngram in ngrams:
        pool.add(ngram)
    return pool


def guessed(pool: Pool, last: int, size: int, width: int) -> set[tuple[int, ...]]:
    """The branches of the tree, root to leaf."""
    tree = guess(pool, last, size, width)
    leaves = set(range(len(tree.parents))) - set(tree.parents)
    return {tuple(tree.token_ids[node] for node in trees.path(tree.parents, leaf)) for leaf in leaves}


def test_what_followed_a_token_comes_latest_first() -> None:
    pool = pool_of((1, 2, 3), (1, 4, 5), (9, 9, 9), (1, 2, 3))
    assert pool.after(1) == [(2, 3), (4, 5)]
    assert pool.after(7) == []
    assert len(pool) == 3


def test_of_the_ngrams_that_begin_alike_the_latest_are_kept() -> None:
    assert pool_of((1, 2), (1, 3), (1, 4), per_token=2).after(1) == [(4,), (3,)]


def test_a_full_pool_forgets_the_beginning_that_came_longest_ago() -> None:
    pool = pool_of((1, 2), (2, 3), (1, 5), (3, 4), most=3)
    assert pool.after(2) == []
    assert pool.after(1) == [(5,), (2,)]


def test_a_pool_stays_within_its_bounds_whatever_comes() -> None:
    pool, chance = Pool(per_token=3, most=50), random.Random(1)
    for _ in range(5000):
        pool.add((chance.randrange(40), chance.randrange(9), chance.randrange(9)))
        assert len(pool) <= 50
        assert len(pool.after(chance.randrange(40))) <= 3
    assert len(pool) == sum(len(pool.after(token)) for token in range(40)) == 50


def test_a_chain_is_the_latest_ngram_and_goes_on_with_what_follows_its_end() -> None:
    pool = pool_of((3, 4, 5), (1, 8, 9), (1, 2, 3), (5, 6, 7))
    assert guessed(pool, 1, 8, 1) == {(2, 3, 4, 5, 6, 7)}
    assert guessed(pool, 1, 3, 1) == {(2, 3, 4)}


def test_ngrams_share_their_beginnings_in_a_tree_of_bounded_width() -> None:
    pool = pool_of((1, 7, 7), (1, 2, 4), (1, 5, 6), (1, 2, 3))
    assert guessed(pool, 1, 8, 3) == {(2, 3), (2, 4), (5, 6)}
    assert guessed(pool, 1, 8, 2) == {(2, 3), (5, 6)}


def test_a_text_in_a_circle_is_guessed_as_far_as_there_is_room() -> None:
    assert guessed(pool_of((1, 2), (2, 1)), 1, 6, 1) == {(2, 1, 2, 1, 2, 1)}


def test_nothing_is_guessed_after_a_token_that_nothing_is_known_of() -> None:
    assert guessed(pool_of((1, 2)), 5, 8, 4) == set()
