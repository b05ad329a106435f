from __future__ import annotations

from dataclasses import replace

import pytest

from common.types import Mode, SamplingParams
from draft_service.session import MOST_AHEAD, OutOfSync, Session
from tests.unit.draft.sessions import commitment, opened, opening


def test_a_session_is_opened_with_what_the_target_says() -> None:
    sampling = SamplingParams(top_k=5)
    update = opening(
        "x", [4, 5, 6], prompt_length=2, sampling=sampling, mode=Mode.REJECTION, noise_seed=9, publish=True
    )
    session = Session.opened(update)
    assert (session.session_id, session.tokens, session.prompt_length) == ("x", [4, 5, 6], 2)
    assert (session.sampling, session.mode, session.noise_seed) == (sampling, Mode.REJECTION, 9)
    assert (session.block_size, session.publish) == (4, True)


def test_a_session_does_not_share_its_tokens_with_the_message_that_opened_it() -> None:
    update = opening(tokens=[1, 2])
    Session.opened(update).commit(commitment(base_length=2, tokens=[3]))
    assert update.token_ids == [1, 2]


def test_a_commit_without_a_block_appends_its_tokens() -> None:
    session = opened(tokens=[1, 2, 3])
    session.commit(commitment(base_length=3, tokens=[7, 8], block_size=2))
    assert session.tokens == [1, 2, 3, 7, 8]
    assert session.block_size == 2


@pytest.mark.parametrize("accepted", range(4))
def test_a_commit_appends_the_accepted_guesses_and_then_its_tokens(accepted: int) -> None:
    session = opened(tokens=[1, 2, 3])
    session.remember(5, (10, 11, 12))
    session.commit(commitment(base_length=3, block_id=5, accepted=accepted, tokens=[9]))
    assert session.tokens == [1, 2, 3, *[10, 11, 12][:accepted], 9]


TREE = (-1, -1, 0, 1, 3)


@pytest.mark.parametrize(
    ("nodes", "taken"), [((), []), ((1,), [11]), ((0, 2), [10, 12]), ((1, 3, 4), [11, 13, 14])]
)
def test_a_commit_appends_the_branch_that_stands(nodes: tuple[int, ...], taken: list[int]) -> None:
    session = opened(tokens=[1, 2, 3])
    session.remember(5, (10, 11, 12, 13, 14), TREE)
    session.commit(commitment(base_length=3, block_id=5, accepted=nodes, tokens=[9]))
    assert session.tokens == [1, 2, 3, *taken, 9]


@pytest.mark.parametrize("nodes", [(0, 1), (2,), (1, 4), (3, 1), (1, 1), (0, 2, 3), (5,)])
def test_a_commit_of_guesses_that_are_no_branch_is_out_of_sync(nodes: tuple[int, ...]) -> None:
    session = opened(tokens=[1, 2, 3])
    session.remember(5, (10, 11, 12, 13, 14), TREE)
    with pytest.raises(OutOfSync):
        session.commit(commitment(base_length=3, block_id=5, accepted=nodes, tokens=[9]))
    assert session.tokens == [1, 2, 3]


def test_a_commit_can_take_guesses_and_ask_for_none() -> None:
    session = opened(tokens=[1])
    session.remember(5, (10,))
    session.commit(commitment(base_length=1, block_id=5, accepted=1, block_size=0))
    assert session.tokens == [1, 10]
    assert session.block_size == 0


@pytest.mark.parametrize("base_length", [0, 2, 4])
def test_a_commit_at_another_length_is_out_of_sync(base_length: int) -> None:
    session = opened(tokens=[1, 2, 3])
    with pytest.raises(OutOfSync):
        session.commit(commitment(base_length=base_length, tokens=[4]))
    assert session.tokens == [1, 2, 3]


def test_a_commit_that_accepts_guesses_of_an_unknown_block_is_out_of_sync() -> None:
    session = opened(tokens=[1, 2, 3])
    session.remember(5, (10, 11))
    with pytest.raises(OutOfSync):
        session.commit(commitment(base_length=3, block_id=6, accepted=1))


def test_a_commit_that_accepts_more_than_was_guessed_is_out_of_sync() -> None:
    session = opened(tokens=[1, 2, 3])
    session.remember(5, (10, 11))
    with pytest.raises(OutOfSync):
        session.commit(commitment(base_length=3, block_id=5, accepted=3))


def test_a_commit_that_accepts_guesses_made_for_another_length_is_out_of_sync() -> None:
    session = opened(tokens=[1, 2, 3])
    session.remember(5, (10, 11))
    session.commit(commitment(base_length=3, tokens=[4]))
    with pytest.raises(OutOfSync):
        session.commit(commitment(base_length=4, block_id=5, accepted=1))


def test_a_commit_that_accepts_nothing_may_name_a_block_long_forgotten() -> None:
    session = opened(tokens=[1, 2, 3])
    for block_id in range(1, 10):
        session.remember(block_id, (10,))
    session.commit(commitment(base_length=3, block_id=1, accepted=0, tokens=[4]))
    assert session.tokens == [1, 2, 3, 4]


def test_few_blocks_are_remembered() -> None:
    session = opened()
    for block_id in range(1, 100):
        session.remember(block_id, (10,))
    assert 99 in session.proposed
    assert len(session.proposed) <= 2 + MOST_AHEAD


def test_a_commit_may_change_the_width_of_the_next_tree_but_not_beyond_that_of_open() -> None:
    session = Session.opened(replace(opening(tokens=[1]), tree_width=3))
    for asked, width in ((1, 1), (0, 1), (2, 2), (8, 3), (0, 3)):
        session.commit(replace(commitment(base_length=len(session.tokens), tokens=[7]), tree_width=asked))
        assert session.tree_width == width
