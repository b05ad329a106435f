"""Answers are replayed as verification would commit them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.replay import Answer, agreement, read, remember, replay
from draft_service.sources.base import Guess
from draft_service.sources.history import History
from draft_service.sources.ngram import NgramSource
from draft_service.sources.suffix import SuffixSource


def test_an_answer_that_repeats_is_guessed_in_blocks() -> None:
    tally = replay(NgramSource(2, 1), [Answer((1, 2, 1, *(2, 1) * 4, 2), 3)], block_size=4, tree_width=1)
    assert (tally.steps, tally.accepted, tally.guessed) == (2, 8, 8)


def test_the_best_branch_of_a_tree_counts() -> None:
    tree = Guess((5, 6, 7, 8), parents=(-1, -1, 1, 2))
    assert [agreement(tree, text) for text in ((6, 7, 9), (5, 7), (9,), (6, 7, 8), ())] == [2, 1, 0, 3, 0]


@pytest.mark.parametrize("seen", [True, False])
def test_earlier_answers_help_where_the_source_remembers(seen: bool) -> None:
    source = SuffixSource(History(100, 100, 1))
    answer = Answer((9, 1, 2, 3, 4, 5), 1)
    if seen:
        remember(source, [answer])
    tally = replay(source, [answer], block_size=8, tree_width=1)
    assert tally.accepted == (4 if seen else 0)
    assert (tally.expected > 0) == seen


def test_answers_are_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"token_ids": [1, 2, 3], "prompt_length": 2}) + "\n")
    assert list(read(path)) == [Answer((1, 2, 3), 2)]
