"""Prompt look-up where a tree is wanted: the continuations of several occurrences, merged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from common import trees
from common.draft_types import Block
from common.types import Mode
from draft_service.session import Session
from draft_service.sources.base import NOTHING, Guess
from draft_service.sources.ngram import NgramSource
from tests.unit.draft.sessions import opened
from verify_service.drafts.checking import Asked, check_block

tokens = st.lists(st.integers(0, 3), min_size=1, max_size=40)


def guess(source: NgramSource, session: Session) -> Guess:
    (made,) = source.propose([session])
    assert made is not None
    return made


def branches(made: Guess) -> list[tuple[int, ...]]:
    """From the root to each leaf."""
    leaves = [node for node in range(len(made.token_ids)) if node not in made.parents]
    return [tuple(made.token_ids[step] for step in trees.path(made.parents, leaf)) for leaf in leaves]


def test_two_continuations_become_two_branches_the_latest_first() -> None:
    made = guess(NgramSource(2, 1), opened(tokens=[1, 2, 8, 7, 1, 2, 9, 6, 1, 2], block_size=4, tree_width=2))
    assert made.token_ids[:2] == (9, 8)
    assert made.parents[:2] == (-1, -1)
    assert branches(made) == [(9, 6), (8, 7)]


def test_what_they_agree_on_is_guessed_once_and_trusted_more() -> None:
    text = [5, 1, 2, 7, 5, 1, 3, 7, 5, 1, 2, 7, 4, 5]
    made = guess(NgramSource(1, 1), opened(tokens=text, block_size=4, tree_width=2))
    assert made.token_ids[0] == 1
    following = [made.token_ids[node] for node in trees.children(made.parents)[1]]
    assert following == [2, 3]


def test_a_longer_match_outweighs_later_shorter_ones() -> None:
    text = [1, 2, 3, 9, 9, 3, 8, 3, 8, 1, 2, 3]
    made = guess(NgramSource(3, 1), opened(tokens=text, block_size=2, tree_width=2))
    assert made.token_ids[0] == 9


def test_one_continuation_is_a_chain() -> None:
    made = guess(NgramSource(2, 1), opened(tokens=[1, 2, 3, 1, 2], block_size=5, tree_width=4))
    assert made.token_ids == (3, 1, 2, 3, 1)
    assert made.parents == trees.chain(5)


@given(tokens, st.integers(1, 16), st.integers(2, 8))
def test_every_tree_is_one_the_verify_service_takes(text: list[int], count: int, width: int) -> None:
    session = opened(tokens=text, block_size=count, tree_width=width)
    made = guess(NgramSource(3, 1), session)
    block = Block(1, len(text), made.token_ids, made.parents)
    check_block(block, Asked(count, width, 100, Mode.REJECTION))
    assert len(made.token_ids) in (0, count)


@given(tokens, st.integers(1, 8))
def test_every_branch_is_what_followed_an_occurrence_of_the_last_token(text: list[int], count: int) -> None:
    made = guess(NgramSource(3, 1), opened(tokens=text, block_size=count, tree_width=8))
    starts = [at + 1 for at, token in enumerate(text[:-1]) if token == text[-1]]
    continued = []
    for start in starts:
        grown = list(text)
        for offset in range(count):
            grown.append(grown[start + offset])
        continued.append(tuple(grown[len(text) :]))
    assert bool(made.token_ids) == bool(starts)
    for branch in branches(made):
        assert any(branch == whole[: len(branch)] for whole in continued)


@given(tokens)
def test_where_a_chain_finds_nothing_a_tree_does_not_either(text: list[int]) -> None:
    chain, tree = (guess(NgramSource(3, 2), opened(tokens=text, tree_width=width)) for width in (1, 4))
    assert (chain == NOTHING) == (tree == NOTHING)


def test_an_ngram_seen_very_often_is_remembered_a_few_times() -> None:
    source = NgramSource(1, 1)
    text = [token for index in range(500) for token in (1, 2 + index % 90)]
    made = guess(source, opened(tokens=[*text, 1], block_size=16, tree_width=8))
    assert len(trees.children(made.parents)[0]) == 8
