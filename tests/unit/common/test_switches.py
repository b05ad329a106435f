"""The manual switch as everybody reads it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from common import switches
from common.errors import Unavailable
from common.switches import State, SwitchReader


@pytest.mark.parametrize(
    ("known", "state"),
    [
        ({}, State.ON),
        ({"all": State.OFF}, State.OFF),
        ({"chat": State.SHADOW}, State.SHADOW),
        ({"chat": State.ON, "all": State.SHADOW}, State.SHADOW),
        ({"chat": State.OFF, "all": State.ON}, State.OFF),
        ({"code": State.OFF}, State.ON),
    ],
)
def test_of_two_switches_the_one_that_allows_less_counts(known: dict[str, State], state: State) -> None:
    assert switches.state_of(known, "chat") is state


def test_what_is_no_state_is_left_out() -> None:
    read = switches.decode({b"chat": b"off", b"code": b"OFF", b"\xff": b"shadow", b"math": b""})
    assert read == {"chat": State.OFF, "\ufffd": State.SHADOW}


async def test_what_was_read_last_stays_while_nothing_can_be_read() -> None:
    answers: list[Mapping[bytes, bytes] | Unavailable] = [
        {b"chat": b"off"},
        Unavailable("away"),
        {b"chat": b"on"},
    ]

    async def fetch() -> Mapping[bytes, bytes]:
        answer = answers.pop(0)
        if isinstance(answer, Unavailable):
            raise answer
        return answer

    reader = SwitchReader(fetch)
    seen = []
    for _ in range(3):
        await reader.read()
        seen.append(switches.state_of(reader.switches, "chat"))
    assert seen == [State.OFF, State.OFF, State.ON]
