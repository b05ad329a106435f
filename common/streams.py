"""Redis streams between draft, fact-check and verify: names, caps, and the form of an entry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from common.errors import InvalidRequest

DRAFTS = "tandem:drafts"
TAGS = "tandem:tags"
FACT_CHECK_GROUP = "fact-check"
DRAFTS_CAP = 10_000
TAGS_CAP = 10_000

_PAYLOAD = b"payload"


@dataclass(frozen=True, slots=True)
class DraftRecord:
    """A drafted block with its text.

    ``text`` is a tail of the committed text followed by the block's; the block's begins at character
    ``block_start``. ``token_ends[i]`` is the character where the block's token i ends, so a span of the
    text maps back to tokens.
    """

    session_id: str
    block_id: int
    base_length: int
    text: str
    block_start: int
    token_ends: tuple[int, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Flag:
    """A contradicted claim: block tokens ``first_token`` up to, not including, ``end_token``."""

    first_token: int
    end_token: int
    text: str
    rule: str
    evidence: str


@dataclass(frozen=True, slots=True)
class TagRecord:
    """The verdict on one block; without flags it was checked and nothing was found."""

    session_id: str
    block_id: int
    base_length: int
    flags: tuple[Flag, ...] = ()


def encode(record: DraftRecord | TagRecord) -> dict[Any, Any]:
    """The fields of a stream entry, bytes to bytes; typed loosely as redis-py wants its mappings."""
    return {_PAYLOAD: json.dumps(asdict(record), ensure_ascii=False).encode()}


def decode_draft(fields: Mapping[bytes, bytes]) -> DraftRecord:
    """Raises InvalidRequest for an entry that is not a draft record."""
    try:
        values = json.loads(fields[_PAYLOAD])
        values["token_ends"] = tuple(int(end) for end in values["token_ends"])
        return DraftRecord(**values)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(f"not a draft record: {error}", field="payload") from None


def decode_tag(fields: Mapping[bytes, bytes]) -> TagRecord:
    """Raises InvalidRequest for an entry that is not a tag record."""
    try:
        values = json.loads(fields[_PAYLOAD])
        values["flags"] = tuple(Flag(**flag) for flag in values["flags"])
        return TagRecord(**values)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(f"not a tag record: {error}", field="payload") from None
