"""Several sources at once: what they agree on, who is believed, and who proposes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common import trees
from common.draft_types import Block, SparseDistribution
from common.types import Mode, SamplingParams
from draft_service.session import Session
from draft_service.sources.base import NOTHING, Guess, Source
from draft_service.sources.merging import Proposal, merge
from draft_service.sources.paged import PagedSource
from draft_service.sources.pool import BestSource, MergingSource
from draft_service.sources.standing import Standing
from tests.unit.draft.paged import PagedRunner
from tests.unit.draft.sessions import commitment, opened
from verify_service.drafts.checking import Asked, check_block, sampled_as_declared


class Scripted:
    """Guesses what it is told; remembers what it was asked."""

    model_version = "1"

    def __init__(self, name: str, *guesses: Guess | None) -> None:
        self.name = name
        self.guesses = list(guesses)
        self.asked: list[list[str]] = []
        self.closed: list[str] = []

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        self.asked.append([session.session_id for session in sessions])
        return [self.guesses[min(len(self.asked), len(self.guesses)) - 1] for _ in sessions]

    def close(self, session_id: str) -> None:
        self.closed.append(session_id)


def proven(*lengths: int) -> Standing:
    """A source of whose blocks of four so many guesses stood."""
    standing = Standing()
    for length in lengths:
        standing.judge(Guess((1, 1, 1, 1)), [1] * length + [0] * (5 - length))
    return standing


def proposals(*guesses: tuple[str, Guess, Standing]) -> list[Proposal]:
    return [Proposal(*one) for one in guesses]


GOOD, POOR = proven(4, 4, 4, 4), proven(0, 0, 0, 0)


def test_a_source_without_a_record_is_trusted_half() -> None:
    assert Standing().trust(0) == Standing().trust(30) == 0.5


def test_trust_follows_what_was_reached_and_nothing_below_a_fall() -> None:
    standing = proven(*[1] * 30)
    assert standing.trust(0) > 0.9
    assert standing.trust(1) < 0.1
    assert standing.trust(2) == 0.5
    assert standing.length == pytest.approx(1, abs=0.2)


def test_a_poor_past_is_made_up_for() -> None:
    assert proven(*[0] * 50, *[4] * 20).trust(0) > 0.8


def test_confidences_that_are_too_high_are_taken_down() -> None:
    standing = Standing()
    for outcome in (1, 0, 0, 0) * 10:
        standing.judge(Guess((1,), confidences=(0.8,)), [outcome])
    assert 0.15 < 0.8 * standing.trust(0) < 0.4


def test_common_beginnings_are_merged_and_the_more_trusted_goes_first() -> None:
    made = merge(
        proposals(("ngram", Guess((1, 2, 3)), POOR), ("suffix", Guess((1, 5, 6)), GOOD)), count=5, width=3
    )
    assert made.token_ids[:3] == (1, 5, 6)
    assert set(made.token_ids) == {1, 2, 3, 5, 6}
    assert made.sources[:3] == ("suffix",) * 3
    assert made.sources[made.token_ids.index(2)] == "ngram"
    assert made.distributions == ()


def test_where_there_is_no_room_what_is_least_believed_is_left_out() -> None:
    made = merge(
        proposals(("ngram", Guess((1, 2, 3)), POOR), ("suffix", Guess((4, 5, 6)), GOOD)), count=3, width=3
    )
    assert made.token_ids == (4, 5, 6)


def test_no_more_siblings_than_asked_for() -> None:
    guesses = [("a", Guess((token,)), Standing()) for token in range(6)]
    assert len(merge(proposals(*guesses), count=6, width=2).token_ids) == 2


def test_a_chain_is_the_best_sources_and_goes_on_with_one_that_agrees() -> None:
    longer, other = Guess((1, 2, 3, 4, 5)), Guess((1, 9, 9, 9))
    made = merge(
        proposals(("a", longer, POOR), ("b", Guess((1, 2)), GOOD), ("c", other, POOR)), count=4, width=1
    )
    assert made.token_ids == (1, 2, 3, 4)
    assert made.parents == ()
    assert made.sources == ("b", "b", "a", "a")


def test_of_two_sources_with_distributions_the_better_one_takes_part() -> None:
    q = SparseDistribution((7, 8), (0.5, 0.5))
    drawn, other = Guess((7,), (q,), (0.9,)), Guess((8,), (q,), (0.9,))
    for width in (1, 3):
        made = merge(proposals(("a", drawn, POOR), ("b", other, GOOD)), count=4, width=width)
        assert (made.token_ids, made.distributions) == ((8,), (q,))


def test_a_source_that_is_not_ready_does_not_hold_up_the_others() -> None:
    pool = MergingSource([Scripted("self", None), Scripted("ngram", Guess((4, 5)))])
    assert pool.propose([opened()]) == [Guess((4, 5), confidences=(0.5, 0.25), sources=("ngram", "ngram"))]
    assert MergingSource([Scripted("self", None), Scripted("ngram", NOTHING)]).propose([opened()]) == [
        NOTHING
    ]


def test_a_session_waits_while_none_is_ready() -> None:
    for kind in (MergingSource, BestSource):
        assert kind([Scripted("a", None), Scripted("b", None)]).propose([opened()]) == [None]


def follow(session: Session, accepted: tuple[int, ...], token: int) -> None:
    session.commit(commitment(base_length=len(session.tokens), tokens=[*accepted, token]))


def test_the_merge_learns_from_the_text_who_guesses_well_also_where_a_guess_was_left_out() -> None:
    right, wrong = Scripted("ngram", Guess((5, 5))), Scripted("suffix", Guess((6, 6)))
    session = opened(block_size=2)
    pool = MergingSource([wrong, right])
    (first,) = pool.propose([session])
    assert first
    assert first.token_ids == (6, 6)
    follow(session, (5, 5), 1)
    (second,) = pool.propose([session])
    assert second
    assert second.token_ids == (5, 5)


def test_the_best_source_proposes_alone_and_says_its_name() -> None:
    right, wrong = Scripted("ngram", Guess((5, 5, 5, 5))), Scripted("suffix", Guess((6, 6)))
    session = opened()
    pool = BestSource([wrong, right])
    named = []
    for _ in range(40):
        (made,) = pool.propose([session])
        assert made
        named.append(made.sources[0])
        follow(session, (5, 5, 5, 5), 1)
    assert named[0] == "suffix"
    assert 2 <= named[4:].count("suffix") <= 3  # one block in sixteen is spent on finding out
    assert len(right.asked) + len(wrong.asked) == 40


def test_where_the_best_source_has_nothing_the_next_is_asked() -> None:
    pool = BestSource([Scripted("a", NOTHING), Scripted("b", None), Scripted("c", Guess((7,)))])
    assert pool.propose([opened()]) == [Guess((7,), sources=("c",))]


@pytest.mark.parametrize("kind", [MergingSource, BestSource])
def test_every_session_has_a_record_of_its_own_until_it_is_closed(kind: type[MergingSource]) -> None:
    first, second = Scripted("a", Guess((5,))), Scripted("b", Guess((6,)))
    pool = kind([first, second])
    one, other = opened("one", block_size=1), opened("other", block_size=1)
    pool.propose([one, other])
    for session, token in ((one, 5), (other, 6)):
        follow(session, (token,), 1)
    pool.propose([one, other])
    for session, token in ((one, 5), (other, 6)):
        follow(session, (token,), 1)
    made = pool.propose([one, other])
    assert [guess.token_ids for guess in made if guess] == [(5,), (6,)]
    pool.close("other")
    assert first.closed == second.closed == ["other"]
    assert [guess.token_ids for guess in pool.propose([opened("other", block_size=1)]) if guess] == [(5,)]


class Repeating:
    """A look-up of sorts: what follows is what the last token says."""

    name = "ngram"
    model_version = "1"

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        return [Guess(tuple((s.tokens[-1] + i) % 100 for i in range(1, s.block_size + 1))) for s in sessions]

    def close(self, session_id: str) -> None:
        return


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=20),
    st.tuples(st.integers(1, 8), st.integers(1, 4)),
    st.sampled_from(Mode),
    st.sampled_from([MergingSource, BestSource]),
    st.data(),
)
def test_every_block_is_one_the_verify_service_takes_as_honest(
    prompt: list[int], shape: tuple[int, int], mode: Mode, kind: type[MergingSource], data: st.DataObject
) -> None:
    count, width = shape
    sources: list[Source] = [Repeating(), PagedSource("self", PagedRunner(32), 32, 64, "v")]
    pool = kind(sources)
    session = opened(
        tokens=prompt, block_size=count, tree_width=width, mode=mode, noise_seed=7, sampling=SamplingParams()
    )
    for _ in range(3):
        (made,) = pool.propose([session])
        assert made
        assert len(made.sources) == len(made.token_ids) <= count
        block = Block(
            1,
            len(session.tokens),
            made.token_ids,
            parents=made.parents,
            distributions=made.distributions,
            sources=made.sources,
        )
        checked = check_block(block, Asked(count, width, 100, mode))
        assert not made.distributions or sampled_as_declared(block, 7)
        session.remember(1, made.token_ids, made.parents)
        nodes = trees.path(checked.tree, data.draw(st.integers(-1, len(made.token_ids) - 1)))
        session.commit(
            commitment(
                base_length=len(session.tokens), block_id=1, accepted=nodes, tokens=[3], block_size=count
            )
        )
