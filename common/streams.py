"""Redis streams between the services: names, caps, and the form of an entry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import ConfigDict, NonNegativeInt, TypeAdapter, ValidationError

from common.errors import InvalidRequest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

DRAFTS = "tandem:drafts"
TAGS = "tandem:tags"
FEEDBACK = "tandem:feedback"
FACT_CHECK_GROUP = "fact-check"
PROMPT_CHARACTERS = 65_536
PROMPT_SECONDS = 600
DRAFTS_CAP = 10_000
TAGS_CAP = 10_000
FEEDBACK_CAP = 20_000

LAST_BLOCK = 0
"""The ``block_id`` of a session's last record."""

_PAYLOAD = b"payload"

T = TypeVar("T")

EXACT = ConfigDict(extra="forbid", strict=True)
"""How the records of a stream are read."""


@dataclass(frozen=True, slots=True)
class DraftRecord:
    """A drafted block with its text.

    ``text`` is a tail of the committed text followed by the block's; the block's begins at character
    ``block_start``. ``token_ends[i]`` is the character where the block's token i ends, ``tail_starts`` where
    the last tokens of the tail begin, so a span of the text maps back to tokens. What ends before the
    character ``since`` stood in an earlier record too. The last record of a session has ``block_id`` 0 and an
    empty block. ``created_ms``: when the block was drafted, in milliseconds of unix time.
    """

    __pydantic_config__: ClassVar[ConfigDict] = EXACT

    session_id: str
    block_id: int
    base_length: int
    text: str
    block_start: int
    token_ends: tuple[int, ...]
    source: str
    created_ms: int
    tail_starts: tuple[int, ...] = ()
    since: NonNegativeInt = 0


@dataclass(frozen=True, slots=True)
class Flag:
    """A contradicted claim: block tokens ``first_token`` up to, not including, ``end_token``.

    Below 0 they are committed ones: -1 is the last before the block.
    """

    __pydantic_config__: ClassVar[ConfigDict] = EXACT

    first_token: int
    end_token: int
    text: str
    rule: str
    evidence: str


@dataclass(frozen=True, slots=True)
class TagRecord:
    """The verdict on one block; without flags it was checked and nothing was found."""

    __pydantic_config__: ClassVar[ConfigDict] = EXACT

    session_id: str
    block_id: int
    base_length: int
    flags: tuple[Flag, ...]


_DRAFT = TypeAdapter(DraftRecord)
_TAG = TypeAdapter(TagRecord)


def prompt_key(session_id: str) -> str:
    """Under which the end of a session's prompt is kept for a while."""
    return f"tandem:prompt:{session_id}"


def encode(record: DataclassInstance) -> dict[Any, Any]:
    """The fields of a stream entry, bytes to bytes; typed loosely as redis-py wants its mappings."""
    return {_PAYLOAD: json.dumps(asdict(record)).encode()}


def decode_draft(fields: Mapping[bytes, bytes]) -> DraftRecord:
    """Raises InvalidRequest for an entry that is not a draft record."""
    return decode(_DRAFT, fields)


def decode_tag(fields: Mapping[bytes, bytes]) -> TagRecord:
    """Raises InvalidRequest for an entry that is not a tag record."""
    return decode(_TAG, fields)


def decode(record: TypeAdapter[T], fields: Mapping[bytes, bytes]) -> T:
    """Raises InvalidRequest for an entry that is no such record."""
    try:
        return record.validate_json(fields.get(_PAYLOAD, b""))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "payload"
        raise InvalidRequest(f"not a stream record: {where}: {first['msg']}", field="payload") from None
