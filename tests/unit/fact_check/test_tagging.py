from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from common.errors import InvalidRequest
from common.streams import Flag, TagRecord
from fact_check_service.tagging import require_sound, tag
from tests.unit.fact_check.support import RULES, committed, draft, flags_of

BOILING = next(rule for rule in RULES if rule.name == "water-boiling-point")


def tokens_flagged(*arguments: str) -> list[tuple[int, int]]:
    return [(flag.first_token, flag.end_token) for flag in flags_of(draft(*arguments))]


def test_a_flag_covers_the_tokens_of_the_claim() -> None:
    (flag,) = flags_of(draft("Water", " boils", " at", " 9", "0", " °C", " at"))
    assert flag == Flag(2, 5, "90 °C", BOILING.name, BOILING.evidence)


def test_a_claim_that_straddles_the_committed_tail_is_flagged_on_the_blocks_tokens() -> None:
    assert tokens_flagged("Water boils at 9", "0", " °C", " at") == [(0, 2)]


def test_a_claim_in_the_committed_tail_alone_is_not_flagged() -> None:
    assert tokens_flagged("Water boils at 90 °C", " at", " sea level") == []


def committed_flagged(seen: str, *tail: str, block: tuple[str, ...] = ()) -> list[tuple[int, int]]:
    return [(flag.first_token, flag.end_token) for flag in flags_of(committed(seen, *tail, block=block))]


def test_what_the_target_wrote_itself_is_flagged_on_the_committed_tokens() -> None:
    assert committed_flagged("Water boils", " at", " 90", " °C", " at", block=(" sea", " level")) == [
        (-3, -1)
    ]
    assert committed_flagged("Water boils", " at", " 90", " °C", ".") == [(-3, -1)]


def test_a_claim_that_was_begun_in_committed_text_is_flagged_from_there_on() -> None:
    assert committed_flagged("Water boils at", " 9", block=("0", " °C", " at")) == [(-1, 2)]


def test_a_claim_that_ended_with_the_last_block_is_judged_in_the_next() -> None:
    """It could have grown then."""
    assert tokens_flagged("The Fed raised rates by", " 400", " basis", " points") == [(0, 3)]
    assert committed_flagged("The Fed raised rates", " by", " $4", block=()) == []
    text = "Mount Everest is 9,000 m"
    record = committed(text, " high", block=(" and",))
    assert [flag.text for flag in flags_of(record)] == []
    record = dataclasses.replace(record, tail_starts=(17, 22, 24), since=24)
    assert [(flag.first_token, flag.end_token, flag.text) for flag in flags_of(record)] == [
        (-3, -1, "9,000 m")
    ]


def test_a_claim_in_the_middle_of_a_token_flags_that_token() -> None:
    assert tokens_flagged("", "Water", " boils at 90 °C here", " and") == [(1, 2)]


def test_every_claim_of_the_block_has_its_flag() -> None:
    assert tokens_flagged("", "Water boils at ", "90 °C", ". A year has ", "400 days", ".") == [
        (1, 2),
        (3, 4),
    ]


def test_a_claim_grows_over_blocks_and_is_judged_once_it_is_whole() -> None:
    assert tokens_flagged("The Fed raised rates", " by", " 4") == []
    assert tokens_flagged("The Fed raised rates by 4", "00", " basis") == []
    assert tokens_flagged("The Fed raised rates by 400 basis", " points") == [(0, 1)]


def test_a_date_grows_over_blocks_and_is_judged_once_it_is_whole() -> None:
    assert tokens_flagged("Apollo 11 landed on the Moon on", " July", " 20", ",", " 19") == []
    assert tokens_flagged("Apollo 11 landed on the Moon on July 20, 19", "68", ".") == [(0, 1)]


def test_a_claim_that_may_have_begun_before_the_tail_is_not_flagged() -> None:
    text = "90 °C is where water boils"
    assert tokens_flagged("9", text[1:]) == []
    assert tokens_flagged("", text) == [(0, 1)]


def test_spans_count_characters_whatever_their_bytes() -> None:
    assert tokens_flagged("水🜄é Water boils at ", "9", "0", " °", "C", " 🜄") == [(0, 4)]


def test_tokens_that_hold_the_first_bytes_of_a_character_go_with_it() -> None:
    assert tokens_flagged("Water boils at ", "", "", "9", "0", "", " °C", "", " x") == [(0, 6)]
    assert tokens_flagged("Water boils at", " ", "", "90 °C", " x") == [(1, 3)]


def test_a_block_without_characters_has_no_flags() -> None:
    assert tokens_flagged("Water boils at 90 °C") == []
    assert tokens_flagged("Water boils at 90 °C", "", "") == []


def test_the_tag_names_the_block() -> None:
    record = draft("", "hello", block_id=7)
    assert tag(record, ()) == TagRecord("session", 7, 10, ())


@pytest.mark.parametrize(
    "change",
    [
        {"text": "short"},
        {"block_start": -1},
        {"block_start": 99},
        {"token_ends": (12, 6)},
        {"token_ends": (1,)},
        {"token_ends": (99,)},
        {"session_id": 3},
        {"text": ["a"]},
        {"block_id": "1"},
    ],
)
def test_a_record_whose_fields_do_not_fit_together_is_refused(change: dict[str, Any]) -> None:
    record = draft("Water ", "boils", " at")
    require_sound(record)
    with pytest.raises(InvalidRequest, match="not a draft record"):
        require_sound(dataclasses.replace(record, **change))
