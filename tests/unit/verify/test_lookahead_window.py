"""What a window finds of a target that is a function of the text before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from common import trees
from verify_service.drafts.lookahead.window import Window

Says = Callable[[Sequence[int]], int]

TEXT = [4, 9]


def by_the_last(text: Sequence[int]) -> int:
    return (7 * text[-1] + 3) % 97


def by_the_last_two(text: Sequence[int]) -> int:
    return (3 * text[-1] + 5 * text[-2] + 1) % 97


def by_the_place(text: Sequence[int]) -> int:
    return 100 + len(text)


def continued(says: Says, text: Sequence[int], count: int) -> list[int]:
    grown = list(text)
    for _ in range(count):
        grown.append(says(grown))
    return grown


def windows_of(text: Sequence[int], size: int) -> list[tuple[int, ...]]:
    return [tuple(text[start : start + size]) for start in range(len(text) - size + 1)]


def look(window: Window, text: Sequence[int], says: Says) -> list[tuple[int, ...]]:
    """A pass: each row asked about sees the text and its ancestors alone."""
    rows = window.rows
    asked = range(len(rows.token_ids) - rows.asked, len(rows.token_ids))
    paths = [trees.path(rows.parents, node) for node in asked]
    said = [says([*text, *(rows.token_ids[node] for node in path)]) for path in paths]
    return window.advance(text[-1], said)


def passes(says: Says, count: int, *, width: int, ngram: int) -> list[list[tuple[int, ...]]]:
    """The n-grams of each pass, while the text grows by a token a pass."""
    window, text, found = Window(width, ngram, filling=[7, 2, 8]), list(TEXT), []
    for _ in range(count):
        found.append(look(window, text, says))
        text.append(says(text))
    return found


def test_the_rows_are_those_of_all_levels_but_for_the_committed_token() -> None:
    for width, ngram in ((1, 3), (4, 3), (5, 4), (2, 8)):
        window = Window(width, ngram, filling=[1])
        for _ in range(10):
            assert len(window.rows.token_ids) == len(window.rows.parents) == width * (ngram - 1) - 1
            assert window.rows.depth == width + ngram - 3
            window.advance(1, [1] * width)


def test_a_row_sees_the_oldest_level_up_to_its_column_and_then_its_column() -> None:
    rows = Window(3, 4, filling=[11, 12, 20, 21, 22, 30, 31, 32]).rows
    seen = [tuple(rows.token_ids[at] for at in trees.path(rows.parents, node)) for node in range(5, 8)]
    assert seen == [(20, 30), (11, 21, 31), (11, 12, 22, 32)]
    assert rows.asked == 3


def test_an_ngram_is_a_column_with_the_token_it_led_to_and_none_has_a_filling() -> None:
    window = Window(2, 4, filling=[0])
    assert window.advance(1, [10, 11]) == []
    assert window.advance(2, [20, 21]) == []
    assert window.advance(3, [30, 31]) == []
    assert window.advance(4, [40, 41]) == [(4, 20, 30, 40), (11, 21, 31, 41)]
    assert window.advance(5, [50, 51]) == [(5, 30, 40, 50), (21, 31, 41, 51)]


@pytest.mark.parametrize(("width", "ngram"), [(2, 3), (4, 3), (5, 4), (3, 6)])
def test_ngrams_are_what_the_target_says_where_it_looks_at_one_token(width: int, ngram: int) -> None:
    """The first column is another matter: there the text has gone on under what was said."""
    steps = passes(by_the_last, 12, width=width, ngram=ngram)
    found = [each for step in steps for each in step[1:]]
    assert len(found) == (12 - (ngram - 1)) * (width - 1)
    assert all(list(each) == continued(by_the_last, each[:1], ngram - 1) for each in found)


def test_ngrams_are_what_the_target_says_where_it_looks_at_two_tokens() -> None:
    steps = passes(by_the_last_two, 12, width=4, ngram=5)
    found = [each for step in steps for each in step[1:]]
    assert len(found) == 8 * 3
    assert all(list(each) == continued(by_the_last_two, each[:2], 3) for each in found)


def test_where_what_comes_depends_on_the_place_alone_all_ngrams_are_of_the_text_that_comes() -> None:
    """The tokens of a window stand where they would stand in the text, whatever came before them."""
    found = passes(by_the_place, 10, width=4, ngram=4)[3:]
    truth = windows_of(continued(by_the_place, TEXT, 20), 4)
    assert all(each in truth for step in found for each in step)


def test_a_column_that_has_met_the_text_goes_on_as_the_text_does() -> None:
    """Two that are in one state go on alike, so the first column's n-grams become those of the text."""

    def says(text: Sequence[int]) -> int:
        return min(text[-1] + 1, 15)

    found = passes(says, 12, width=3, ngram=4)
    assert (15, 15, 15, 15) in found[-1]
    assert found[-1][0] in windows_of(continued(says, TEXT, 20), 4)
