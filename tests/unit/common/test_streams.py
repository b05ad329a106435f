"""Entries of the Redis streams: what is read is what was written, anything else is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common import streams
from common.errors import InvalidRequest
from common.streams import DraftRecord, Flag, TagRecord

numbers = st.integers(0, 2**64 - 1)
draft_records = st.builds(
    DraftRecord,
    session_id=st.text(),
    block_id=numbers,
    base_length=numbers,
    text=st.text(),
    block_start=numbers,
    token_ends=st.lists(numbers, max_size=5).map(tuple),
    source=st.text(),
)
flags = st.builds(Flag, numbers, numbers, st.text(), st.text(), st.text())
tag_records = st.builds(TagRecord, st.text(), numbers, numbers, st.lists(flags, max_size=3).map(tuple))

DRAFT = DraftRecord("s", 1, 2, "text", 3, (4,), "ngram", 1_700_000_000_000)
TAG = TagRecord("s", 1, 2, (Flag(0, 1, "text", "rule", "evidence"),))
Decoder = Callable[[Mapping[bytes, bytes]], object]
DECODERS: list[Decoder] = [streams.decode_draft, streams.decode_tag]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def payload(value: object) -> dict[bytes, bytes]:
    return {b"payload": json.dumps(value).encode()}


@given(draft_records)
def test_a_draft_record_is_read_as_written(record: DraftRecord) -> None:
    assert streams.decode_draft(streams.encode(record)) == record


@given(tag_records)
def test_a_tag_record_is_read_as_written(record: TagRecord) -> None:
    assert streams.decode_tag(streams.encode(record)) == record


def test_an_entry_is_one_field_of_bytes() -> None:
    fields = streams.encode(DRAFT)
    assert {type(part) for pair in fields.items() for part in pair} == {bytes}


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {b"other": b"{}"},
        {b"payload": b""},
        {b"payload": b"\xff"},
        {b"payload": b"{"},
        payload(None),
        payload([]),
        payload("text"),
        payload({}),
    ],
)
def test_an_entry_that_is_no_record_is_refused(decode: Decoder, fields: dict[bytes, bytes]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode(fields)
    assert caught.value.field == "payload"


def test_a_tag_is_no_draft() -> None:
    with pytest.raises(InvalidRequest):
        streams.decode_draft(streams.encode(TAG))


def test_an_entry_that_says_nothing_of_flags_cannot_pass_for_a_clean_verdict() -> None:
    with pytest.raises(InvalidRequest):
        streams.decode_tag(streams.encode(DRAFT))


@given(
    st.sampled_from(["session_id", "block_id", "base_length", "text", "block_start", "token_ends", "source"])
)
def test_a_draft_record_that_lacks_a_field_is_refused(name: str) -> None:
    values = json.loads(streams.encode(DRAFT)[b"payload"])
    del values[name]
    with pytest.raises(InvalidRequest):
        streams.decode_draft(payload(values))


@given(anything)
@example(float("inf"))
@example([float("inf")])
def test_token_ends_of_any_form_are_read_or_refused_but_raise_nothing_else(value: object) -> None:
    values = json.loads(streams.encode(DRAFT)[b"payload"])
    try:
        streams.decode_draft(payload(values | {"token_ends": value}))
    except InvalidRequest as error:
        assert error.field == "payload"


@given(anything)
def test_flags_of_any_form_are_read_or_refused_but_raise_nothing_else(value: object) -> None:
    values = json.loads(streams.encode(TAG)[b"payload"])
    try:
        streams.decode_tag(payload(values | {"flags": value}))
    except InvalidRequest as error:
        assert error.field == "payload"
