"""The latest hidden states of a sequence, on both ends of the wire."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from common.draft_types import HiddenStates
from common.errors import InvalidRequest
from common.states import MOST_POSITIONS, StateTail

WIDTH = 4


def rows(first: int, count: int) -> Tensor:
    """Each row says its position."""
    return torch.arange(first, first + count).unsqueeze(1).expand(-1, WIDTH).float()


def positions(tail: StateTail) -> list[int]:
    return [int(value) for value in tail.since(tail.first)[:, 0]]


def test_what_follows_is_added_and_what_is_computed_anew_takes_the_place_of_the_old() -> None:
    tail = StateTail(WIDTH)
    tail.put(0, rows(0, 5))
    tail.put(5, rows(5, 2))
    assert (tail.first, tail.end, positions(tail)) == (0, 7, [*range(7)])
    tail.put(3, rows(13, 2))
    assert (tail.end, positions(tail)) == (5, [0, 1, 2, 13, 14])
    tail.put(0, rows(20, 1))
    assert (tail.first, tail.end, positions(tail)) == (0, 1, [20])


def test_after_a_gap_only_what_follows_it_is_known() -> None:
    tail = StateTail(WIDTH)
    tail.put(0, rows(0, 2))
    tail.put(16, rows(16, 3))
    assert (tail.first, tail.end, positions(tail)) == (16, 19, [16, 17, 18])


def test_only_the_latest_are_kept() -> None:
    tail = StateTail(WIDTH)
    tail.put(0, rows(0, MOST_POSITIONS + 40))
    assert (tail.first, tail.end) == (40, MOST_POSITIONS + 40)
    tail.put(tail.end, rows(tail.end, 3))
    assert (tail.first, tail.end) == (43, MOST_POSITIONS + 43)


def test_a_message_holds_what_was_not_sent_and_arrives_as_it_left() -> None:
    sender, receiver = StateTail(WIDTH), StateTail(WIDTH)
    sender.put(2, rows(2, 4))
    message = sender.message(4)
    assert message is not None
    assert (message.first_position, len(message.bfloat16)) == (4, 2 * WIDTH * 2)
    receiver.take(message, committed=6)
    assert (receiver.first, receiver.end, positions(receiver)) == (4, 6, [4, 5])
    assert sender.message(6) is None


@pytest.mark.parametrize(
    ("message", "word"),
    [
        (HiddenStates(0, bytes(2 * WIDTH + 1)), "whole"),
        (HiddenStates(5, bytes(2 * 2 * WIDTH)), "not committed"),
    ],
)
def test_a_message_that_does_not_fit_is_refused_by_name(message: HiddenStates, word: str) -> None:
    with pytest.raises(InvalidRequest, match=word) as caught:
        StateTail(WIDTH).take(message, committed=6)
    assert caught.value.field == "hidden_states"
