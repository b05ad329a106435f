"""What drafts say they believe where a lossy policy wants to know, and how far a pool's sources are apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from common import trees
from common.draft_types import Block, SparseDistribution
from common.types import Mode, SamplingParams
from draft_service.session import Session
from draft_service.sources.agreement import ALONE, disagreements, divergence
from draft_service.sources.base import Guess
from draft_service.sources.paged import PagedSource
from draft_service.sources.pool import MergingSource, RoundsSource
from tests.unit.draft.paged import PagedRunner, logits_after
from tests.unit.draft.sessions import commitment, opened, opening
from tests.unit.draft.test_pool import Scripted
from verify_service.drafts.checking import Asked, check_block

COMMON = 0.6
EVEN = SparseDistribution((5, 6), (0.5, 0.5))
TILTED = SparseDistribution((5, 6), (0.6, 0.4))
OTHER = SparseDistribution((7, 8), (0.5, 0.5))


def shown(session_id: str = "s", **fields: object) -> Session:
    update = opening(session_id, vocabulary_size=100, **fields)  # type: ignore[arg-type]
    return Session.opened(replace(update, shown_temperature=COMMON))


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("sampling", [SamplingParams(temperature=0), SamplingParams(temperature=1, top_k=4)])
def test_a_model_shows_what_it_believes_before_each_guess_at_the_common_temperature(
    width: int, sampling: SamplingParams
) -> None:
    session = shown(tree_width=width, block_size=6, sampling=sampling)
    (made,) = PagedSource("self", PagedRunner(32), 32, 64, "v").propose([session])
    assert made
    assert len(made.shown) == len(made.token_ids) == 6
    parents = made.parents or trees.chain(6)
    for node, said in enumerate(made.shown):
        path = [made.token_ids[step] for step in trees.path(parents, parents[node])]
        expected = (logits_after([*session.tokens, *path]).double() / COMMON).softmax(-1)
        for token, probability in zip(said.token_ids, said.probabilities, strict=True):
            assert probability == pytest.approx(float(expected[token]), rel=0.2)
        assert sum(said.probabilities) == pytest.approx(1, abs=1e-5)
    block = Block(1, 3, made.token_ids, made.parents, distributions=made.shown)
    checked = check_block(block, Asked(6, width, 100, Mode.KEYED, shown=True))
    assert checked.distributions == made.shown


def test_nothing_is_shown_that_was_not_asked_for() -> None:
    (made,) = PagedSource("self", PagedRunner(32), 32, 64, "v").propose([opened()])
    assert made
    assert made.shown == ()


def test_a_pool_shows_the_beliefs_of_whoever_guessed() -> None:
    text = Scripted("ngram", Guess((9, 4)))
    pool = MergingSource([text, PagedSource("self", PagedRunner(32), 32, 64, "v")])
    (made,) = pool.propose([shown(tree_width=3, block_size=6)])
    assert made
    assert len(made.shown) == len(made.sources) == len(made.disagreements) == len(made.token_ids)
    for token, source, said in zip(made.token_ids, made.sources, made.shown, strict=True):
        assert (said == SparseDistribution((token,), (1.0,))) == (source == "ngram")


def test_divergence_is_that_of_the_closer_direction_over_the_vocabulary() -> None:
    kl = 0.5 * math.log(0.5 / 0.6) + 0.5 * math.log(0.5 / 0.4)
    back = 0.6 * math.log(0.6 / 0.5) + 0.4 * math.log(0.4 / 0.5)
    assert divergence(EVEN, TILTED, 100) == pytest.approx(min(kl, back) / math.log(100))
    assert divergence(EVEN, EVEN, 100) == 0
    assert divergence(EVEN, OTHER, 100) == 1
    certain = SparseDistribution((5,), (1.0,))
    assert divergence(certain, EVEN, 100) == pytest.approx(math.log(2) / math.log(100))


def guess(token_ids: tuple[int, ...], said: Sequence[SparseDistribution] = ()) -> Guess:
    return Guess(token_ids, shown=tuple(said))


def test_of_three_sources_the_two_closest_count() -> None:
    merged = guess((5, 9))
    sources = [guess((5, 9), [EVEN, EVEN]), guess((6, 1), [TILTED, EVEN]), guess((7,), [OTHER])]
    first, second = disagreements(merged, sources, 100)
    assert 0 < first < 0.02
    assert second == ALONE, "after 5 one source has a guess only"


def test_sources_of_text_agree_where_they_guess_the_same() -> None:
    assert disagreements(guess((5, 9)), [guess((5, 9)), guess((5, 8))], 100) == (0.0, 1.0)
    assert disagreements(guess((5,)), [guess((5,))], 100) == (ALONE,)


def commit(session: Session, block: Guess, accepted: int, token: int) -> None:
    session.remember(1, block.token_ids, block.parents)
    session.commit(
        commitment(
            base_length=len(session.tokens), block_id=1, accepted=accepted, tokens=[token], block_size=4
        )
    )


def test_after_a_rejection_the_next_source_drafts_and_after_a_whole_block_the_first() -> None:
    sources = [Scripted(name, Guess((number, number))) for number, name in ((1, "a"), (2, "b"), (3, "c"))]
    pool, session, who = RoundsSource(sources), opened(), []
    for accepted, token in ((2, 9), (0, 9), (1, 9), (0, 9), (2, 9), (2, 9)):
        (made,) = pool.propose([session])
        assert made
        who.append(made.sources[0])
        commit(session, made, accepted, token)
    assert who == ["a", "a", "b", "c", "a", "a"]


def test_a_source_that_has_nothing_gives_its_turn_away() -> None:
    pool = RoundsSource([Scripted("a", Guess()), Scripted("b", None), Scripted("c", Guess((3,)))])
    (made,) = pool.propose([opened()])
    assert made
    assert made.sources == ("c",)
