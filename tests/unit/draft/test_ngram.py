"""Prompt look-up against a search of the whole text."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from draft_service.session import Session
from draft_service.sources.base import NOTHING, Guess
from draft_service.sources.ngram import NgramSource
from tests.unit.draft.sessions import commitment, opened

tokens = st.lists(st.integers(0, 2), min_size=1, max_size=30)
lengths = st.tuples(st.integers(1, 5), st.integers(1, 5)).map(sorted)


def brute_force(text: Sequence[int], longest: int, shortest: int, count: int) -> list[int]:
    """What followed the latest earlier occurrence of the longest tail that has one."""
    for length in range(min(longest, len(text) - 1), shortest - 1, -1):
        tail = list(text[-length:])
        for start in range(len(text) - length - 1, -1, -1):
            if list(text[start : start + length]) == tail:
                grown = list(text)
                for offset in range(count):
                    grown.append(grown[start + length + offset])
                return grown[len(text) :]
    return []


def guess(source: NgramSource, session: Session) -> list[int]:
    (made,) = source.propose([session])
    assert made is not None
    assert made.distributions == ()
    return list(made.token_ids)


@given(tokens, lengths, st.integers(1, 8))
def test_a_guess_is_what_a_search_of_the_text_finds(
    text: list[int], lengths: list[int], block_size: int
) -> None:
    shortest, longest = lengths
    source = NgramSource(longest, shortest)
    session = opened(tokens=text, block_size=block_size)
    assert guess(source, session) == brute_force(text, longest, shortest, block_size)


@settings(max_examples=50)
@given(tokens, st.lists(tokens, max_size=6))
def test_it_keeps_finding_what_a_search_finds_as_tokens_are_committed(
    text: list[int], commits: list[list[int]]
) -> None:
    source = NgramSource(3, 1)
    session = opened(tokens=text)
    for committed in commits:
        expected = brute_force(session.tokens, 3, 1, 4)
        assert guess(source, session) == expected
        session.remember(1, tuple(expected))
        accepted = len(expected) // 2
        session.commit(
            commitment(base_length=len(session.tokens), block_id=1, accepted=accepted, tokens=committed)
        )
    assert guess(source, session) == brute_force(session.tokens, 3, 1, 4)


@settings(max_examples=50)
@given(tokens, tokens)
def test_a_session_opened_again_is_searched_afresh(first: list[int], second: list[int]) -> None:
    source = NgramSource(3, 1)
    source.propose([opened(tokens=first)])
    source.close("s")
    assert guess(source, opened(tokens=second)) == brute_force(second, 3, 1, 4)


def test_sessions_do_not_see_each_others_text() -> None:
    source = NgramSource(3, 1)
    repeating, other = opened("a", [1, 2, 1]), opened("b", [1, 3, 4])
    assert source.propose([repeating, other]) == [Guess((2, 1, 2, 1)), NOTHING]


def test_a_repetition_is_continued_for_the_whole_block() -> None:
    assert guess(NgramSource(4, 1), opened(tokens=[1, 2, 3, 1, 2], block_size=7)) == [3, 1, 2, 3, 1, 2, 3]


def test_the_longest_match_wins_over_the_latest() -> None:
    assert guess(NgramSource(2, 1), opened(tokens=[1, 2, 9, 5, 2, 8, 1, 2], block_size=1)) == [9]


def test_of_equally_long_matches_the_latest_wins() -> None:
    assert guess(NgramSource(2, 1), opened(tokens=[1, 2, 9, 1, 2, 8, 1, 2], block_size=1)) == [8]


def test_a_tail_shorter_than_the_shortest_is_not_looked_up() -> None:
    assert guess(NgramSource(3, 2), opened(tokens=[1, 5, 1])) == []


def test_text_that_never_recurs_gives_no_guess() -> None:
    assert NgramSource(4, 1).propose([opened(tokens=[1, 2, 3])]) == [NOTHING]


def test_closing_a_session_that_was_never_seen_is_harmless() -> None:
    NgramSource(4, 1).close("unknown")
