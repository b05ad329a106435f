"""The request bodies, closed: a field that is not here is refused by name.

Types are strict (a boolean is no number, "1" is no number, NaN is no number) and an explicit null means
absent. Ranges that the engine defines are checked by ``common.types`` when a body is translated; only what
the wire could not carry is bounded here.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainValidator,
    ValidationError,
)
from pydantic_core import PydanticCustomError

from common.trees import MAX_WIDTH
from common.types import LONGEST_CACHE_SALT, MOST_LOGPROBS, MOST_VALIDATORS, FactCheck, Mode
from gateway.errors import from_validation

_UINT32_END = 1 << 32
_TOKEN_ID = re.compile(r"0|[1-9][0-9]{0,9}")

BodyType = TypeVar("BodyType", bound="GenerationBody")


def _only_false(value: bool) -> bool:
    if value:
        raise PydanticCustomError("unsupported", "only false is supported")
    return value


def _token_key(key: str) -> str:
    if not _TOKEN_ID.fullmatch(key) or int(key) >= _UINT32_END:
        raise PydanticCustomError("token_id", "keys must be token ids")
    return key


def _one_prompt(value: object) -> object:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(type(item) is int and 0 <= item < _UINT32_END for item in value):
        return value
    raise PydanticCustomError("prompt", "must be one string or one list of token ids")


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _parts(value: object) -> object:
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


Unsupported = Annotated[bool, AfterValidator(_only_false)]
Uint32 = Annotated[int, Field(ge=0, lt=_UINT32_END)]
LogprobCount = Annotated[int, Field(ge=0, le=MOST_LOGPROBS)]
TokenCount = Annotated[int, Field(ge=1, lt=_UINT32_END)]
TokenKey = Annotated[str, AfterValidator(_token_key)]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class TextPart(_Closed):
    type: Literal["text"]
    text: str


class ChatMessage(_Closed):
    """``content`` may be written as one string, which stands for one part."""

    role: Literal["system", "user", "assistant"]
    content: Annotated[list[TextPart], BeforeValidator(_parts)]


class StreamOptions(_Closed):
    include_usage: bool | None = None


class JsonSchema(_Closed):
    """``name``, ``description`` and ``strict`` change nothing: the answer is always held to the schema."""

    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+$")]
    schema_: Annotated[dict[str, JsonValue], Field(alias="schema")]
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(_Closed):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StructuredOutputs(_Closed):
    """vLLM's fields; exactly one of them."""

    json_: Annotated[str | dict[str, JsonValue] | None, Field(alias="json")] = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None


def _as_number(value: object) -> object:
    return float(value) if isinstance(value, bool) else value


Number = Annotated[float, BeforeValidator(_as_number)]


class NamedPolicy(_Closed):
    """Its parameters beside the name: which there are, the policy says."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Number]
    name: Annotated[str, Field(min_length=1, max_length=64)]


class NamedValidator(_Closed):
    """``schema`` goes with ``json``, ``pattern`` with ``regex``; others have options of their own."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]
    name: Annotated[str, Field(min_length=1, max_length=64)]


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


class Speculation(_Closed):
    """A policy or validator without parameters may be written as its name."""

    enabled: bool | None = None
    mode: Mode | None = None
    block_size: Annotated[int, Field(ge=1, le=64)] | None = None
    tree_width: Annotated[int, Field(ge=1, le=MAX_WIDTH)] | None = None
    fact_check: FactCheck | None = None
    policy: Annotated[NamedPolicy, BeforeValidator(_named)] | None = None
    validators: (
        Annotated[list[Annotated[NamedValidator, BeforeValidator(_named)]], Field(max_length=MOST_VALIDATORS)]
        | None
    ) = None
    trace: bool | None = None


class GenerationBody(_Closed):
    """What both endpoints take. ``user`` identifies the caller's end user; the answer never depends on it."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: Uint32 | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[TokenKey, float] | None = None
    seed: int | None = None
    max_tokens: TokenCount | None = None
    max_completion_tokens: TokenCount | None = None
    stop: Annotated[list[str], BeforeValidator(_listed), Field(max_length=16)] | None = None
    stop_token_ids: list[Uint32] | None = None
    ignore_eos: bool | None = None
    min_tokens: Uint32 | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    user: str | None = None
    n: Annotated[int, Field(ge=1)] | None = None
    speculation: Speculation | None = None
    cache_salt: Annotated[str, Field(min_length=1, max_length=LONGEST_CACHE_SALT)] | None = None


class ChatBody(GenerationBody):
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    logprobs: bool | None = None
    top_logprobs: LogprobCount | None = None


class CompletionBody(GenerationBody):
    prompt: Annotated[str | list[int], PlainValidator(_one_prompt)]
    echo: Unsupported | None = None
    logprobs: LogprobCount | None = None


def parse(kind: type[BodyType], body: bytes) -> BodyType:
    """Raises InvalidRequest naming the first field at fault."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise from_validation(error) from None
