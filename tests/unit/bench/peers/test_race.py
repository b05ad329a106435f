"""Everybody in turn on the same prompts; medians, spreads and ratios."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import pairwise

import pytest

from bench.peers import race, table
from bench.peers.__main__ import Variant, _prefill_ids
from bench.peers.contestant import Answered, Row

PROMPTS = ["one", "two", "three"]


class Scripted:
    """Answers at a fixed speed and writes down when it was asked."""

    def __init__(self, row: Row, seconds: float, diary: list[tuple[str, int, int]]) -> None:
        self.row = row
        self._seconds = seconds
        self._diary = diary

    async def answer(self, prompts: Sequence[str], streams: int, max_tokens: int) -> Answered:
        self._diary.append((self.row.name, streams, len(prompts)))
        return Answered(10 * len(prompts), self._seconds * len(prompts))

    async def prefill(self, token_ids: Sequence[int]) -> float:
        assert token_ids
        return self._seconds


def course(rounds: int, streams: Sequence[int]) -> race.Course:
    return race.Course(PROMPTS, 10, rounds, streams, lambda number: [number], pause_seconds=0)


async def test_one_stream_changes_hands_after_every_prompt_and_many_take_all_at_once() -> None:
    diary: list[tuple[str, int, int]] = []
    both = [Scripted(Row(name), 1.0, diary) for name in ("a", "b")]
    await race.run(both, course(rounds=1, streams=(1, 8)), lambda _: None)
    single = [name for name, streams, _ in diary[4:] if streams == 1]
    assert single == ["a", "b", "b", "a", "a", "b"]
    assert diary[-2:] == [("a", 8, 3), ("b", 8, 3)]


async def test_speed_is_all_tokens_by_all_seconds_once_a_round() -> None:
    slow = Scripted(Row("slow", streams=(1,), prefills=False), 4.0, [])
    fast = Scripted(Row("fast"), 2.0, [])
    results = await race.run([slow, fast], course(rounds=3, streams=(1, 8)), lambda _: None)
    assert results.speeds == {1: {"slow": [2.5] * 3, "fast": [5.0] * 3}, 8: {"fast": [5.0] * 3}}
    assert results.prefills == {"fast": [2.0] * 3}
    assert results.lengths == {"slow": 10, "fast": 10}


def test_the_table_has_medians_spreads_and_how_many_times_we_are_theirs() -> None:
    results = race.Results(
        {1: {"ours plain": [30.0, 10.0, 20.0], "theirs": [40.0, 41.0, 5.0]}},
        {"ours plain": [0.1], "theirs": [0.3]},
        {"ours plain": 100.0, "theirs": 90.0},
    )
    lines = table.text(results, ["ours plain"], {"missing": "not set up"}).splitlines()
    assert lines[0].split()[-2:] == ["ours", "plain"]
    assert lines[1].split() == ["ours", "plain", "20.0", "10.0–30.0", "100", "1.00", "×"]
    assert lines[2].split() == ["theirs", "40.0", "5.0–41.0", "90", "0.50", "×"]
    assert lines[6].split() == ["theirs", "300.0", "300.0–300.0", "3.00", "×"]
    assert lines[-1].split() == ["missing", "not", "set", "up"]
    assert "one stream, of theirs, the fastest other: ours plain 0.50 ×" in lines


def test_nobody_is_the_fastest_other_where_there_are_no_others() -> None:
    results = race.Results({1: {"ours": [30.0]}}, {}, {"ours": 100.0})
    assert "fastest" not in table.text(results, ["ours"], {})


def test_no_two_prefills_share_a_prefix() -> None:
    ids = list(range(2000))
    prompts = [_prefill_ids(ids, number) for number in range(8)]
    assert {len(prompt) for prompt in prompts} == {1024}
    assert all(one[0] != other[0] for one, other in pairwise(prompts))


def test_a_variant_is_a_name_with_variables() -> None:
    assert Variant.parse("int8:A=1,B=x=y") == Variant("int8", {"A": "1", "B": "x=y"})
    assert Variant.parse("plain") == Variant("plain", {})


@pytest.mark.parametrize("text", ["", ":A=1", "x:A", "x:=1"])
def test_a_variant_that_is_not_one_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="NAME:VARIABLE"):
        Variant.parse(text)
