"""The hash chains against a search of the texts, and what is left when texts fall out."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from draft_service.sources.occurrences import LONGEST, Occurrences

tokens = st.lists(st.integers(0, 2), max_size=40)
texts = st.lists(tokens, max_size=6)


def filled(ended: Sequence[Sequence[int]], current: Sequence[int] = ()) -> Occurrences:
    made = Occurrences()
    for text in ended:
        made.extend(text)
        made.end_text()
    made.extend(current)
    return made


def searched(ended: Sequence[Sequence[int]], tail: Sequence[int]) -> set[tuple[int, int]]:
    """(place of a token that follows a match, length of the match), in the texts end to end."""
    found, start = set(), 0
    for text in ended:
        for at in range(1, len(text)):
            length = 0
            while length < min(at, len(tail), LONGEST) and text[at - 1 - length] == tail[-1 - length]:
                length += 1
            if length:
                found.add((start + at, length))
        start += len(text) + 1
    return found


@given(texts, tokens)
def test_it_finds_what_a_search_of_the_texts_finds(ended: list[list[int]], tail: list[int]) -> None:
    found = list(filled(ended).find(tail, 1000))
    assert len(found) == len(set(found))
    assert set(found) == searched(ended, tail)


@given(texts, tokens, st.data())
def test_texts_that_have_fallen_out_are_found_no_more_and_the_others_still_are(
    ended: list[list[int]], tail: list[int], data: st.DataObject
) -> None:
    gone = data.draw(st.integers(0, len(ended)))
    made = filled(ended)
    dropped = sum(len(text) + 1 for text in ended[:gone])
    made.drop(dropped)
    kept = {(place + dropped, length) for place, length in searched(ended[gone:], tail)}
    assert set(made.find(tail, 1000)) == kept
    assert [made.after(place, 50) for place, _ in kept] == [
        filled(ended).after(place, 50) for place, _ in kept
    ]


@given(texts)
def test_nothing_is_left_of_texts_that_have_all_fallen_out(ended: list[list[int]]) -> None:
    made = filled(ended)
    made.drop(len(made))
    assert len(made) == 0
    assert not any(made._latest)
    assert not any(made._earlier)


@given(tokens, tokens)
def test_it_does_not_matter_in_which_pieces_a_text_comes(first: list[int], second: list[int]) -> None:
    pieces = filled([], first)
    pieces.extend(second)
    tail = [*first, *second]
    assert list(pieces.find(tail, 1000)) == list(filled([], tail).find(tail, 1000))


def test_the_longer_match_comes_first_and_of_equal_runs_the_latest() -> None:
    text = [5, 6, 7, 1, 7, 2, 7, 3]
    assert [place for place, _ in filled([text]).find([5, 6, 7], 8)] == [3, 7, 5]


def test_no_more_than_so_many_are_found() -> None:
    assert len(list(filled([[1, 2] * 50]).find([1], 5))) == 5


def test_a_continuation_ends_with_its_text() -> None:
    assert filled([[1, 2, 3], [4, 5]]).after(1, 9) == [2, 3]


def test_a_text_that_goes_on_is_continued_with_what_it_would_repeat() -> None:
    assert filled([], [1, 2, 3, 1, 2]).after(2, 7) == [3, 1, 2, 3, 1, 2, 3]
