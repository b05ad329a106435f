"""OpenAI bodies to what the engine takes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import takewhile
from typing import Any

from common.errors import InvalidRequest
from common.types import (
    FactCheck,
    GenerateRequest,
    Message,
    PolicyChoice,
    Prompt,
    RouteRequest,
    SamplingParams,
    SpeculationParams,
    Stopping,
    ValidatorChoice,
)
from gateway import structured
from gateway.schema import (
    ChatBody,
    CompletionBody,
    GenerationBody,
    NamedPolicy,
    NamedValidator,
    Speculation,
)

HEAD_CHARACTERS = 200
PREFIX_CHARACTERS = 1024

_SAMPLING_FIELDS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "seed",
)


def to_generate(body: ChatBody | CompletionBody, request_id: str) -> GenerateRequest:
    """The request as the verify service takes it, its drafts not yet chosen.

    Raises:
        InvalidRequest: for a value out of range, or fields that contradict each other.
    """
    _check_stream_options(body)
    return GenerateRequest(
        request_id=request_id,
        prompt=_prompt(body),
        sampling=_sampling(body),
        stopping=_stopping(body),
        speculation=_speculation(body.speculation or Speculation()),
        cache_salt=body.cache_salt or "",
        constraint=structured.constraint(body),
        top_logprobs=_top_logprobs(body),
    )


def to_choices(request: GenerateRequest, n: int) -> list[GenerateRequest]:
    """One request per choice: the first is the request itself, the others have seeds drawn from its own."""
    return [request, *(_other_choice(request, index) for index in range(1, n))]


def _other_choice(request: GenerateRequest, index: int) -> GenerateRequest:
    seed = request.sampling.seed
    if seed is not None:
        digest = hashlib.sha256(f"{seed}:{index}".encode()).digest()
        seed = int.from_bytes(digest[:8], "big", signed=True)
    return replace(
        request,
        request_id=f"{request.request_id}-{index}",
        sampling=replace(request.sampling, seed=seed),
    )


def to_route(request: GenerateRequest, model: str) -> RouteRequest:
    """What the router needs to know; nothing of a prompt of token ids can be read here."""
    return RouteRequest(
        request_id=request.request_id,
        model=model,
        head=_head(request.prompt),
        prompt_characters=_characters(request.prompt),
        speculation_disabled=request.speculation.disabled,
        prefix_key=_prefix_key(request),
    )


def _check_stream_options(body: GenerationBody) -> None:
    if body.stream_options is not None and not body.stream:
        raise InvalidRequest("stream_options is only allowed when stream is true", field="stream_options")


def _prompt(body: ChatBody | CompletionBody) -> Prompt:
    if isinstance(body, CompletionBody):
        return body.prompt
    return tuple(Message(m.role, "".join(part.text for part in m.content)) for m in body.messages)


def _given(body: GenerationBody, names: Iterable[str]) -> dict[str, Any]:
    """Only the fields the client set, so that defaults stay where the engine defines them."""
    values = {name: getattr(body, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _sampling(body: GenerationBody) -> SamplingParams:
    bias = {int(token): value for token, value in (body.logit_bias or {}).items()}
    return SamplingParams(**_given(body, _SAMPLING_FIELDS), logit_bias=bias)


def _stopping(body: GenerationBody) -> Stopping:
    return Stopping(
        max_tokens=_max_tokens(body),
        stop=tuple(body.stop or ()),
        stop_token_ids=frozenset(body.stop_token_ids or ()),
        ignore_eos=bool(body.ignore_eos),
        min_tokens=body.min_tokens or 0,
    )


def _top_logprobs(body: ChatBody | CompletionBody) -> int | None:
    if isinstance(body, CompletionBody):
        return body.logprobs
    if body.logprobs:
        return body.top_logprobs or 0
    if body.top_logprobs is not None:
        raise InvalidRequest("top_logprobs goes with logprobs: true", field="top_logprobs")
    return None


def _max_tokens(body: GenerationBody) -> int | None:
    if body.max_completion_tokens is None:
        return body.max_tokens
    if body.max_tokens not in (None, body.max_completion_tokens):
        raise InvalidRequest("max_tokens and max_completion_tokens differ", field="max_tokens")
    return body.max_completion_tokens


def _speculation(asked: Speculation) -> SpeculationParams:
    return SpeculationParams(
        disabled=asked.enabled is False,
        mode=asked.mode,
        block_size=asked.block_size,
        tree_width=asked.tree_width,
        fact_check=asked.fact_check or FactCheck.OFF,
        policy=_policy(asked.policy) if asked.policy else None,
        validators=tuple(map(_validator, asked.validators or ())),
        trace=bool(asked.trace),
    )


def _policy(asked: NamedPolicy) -> PolicyChoice:
    return PolicyChoice(asked.name, dict(asked.__pydantic_extra__))


def _validator(asked: NamedValidator) -> ValidatorChoice:
    """An option that is no text crosses as JSON."""
    options = asked.__pydantic_extra__
    return ValidatorChoice(
        asked.name,
        {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()},
    )


def _head(prompt: Prompt) -> str:
    if isinstance(prompt, str):
        return prompt[:HEAD_CHARACTERS]
    if isinstance(prompt, list):
        return ""
    last = next((m.content for m in reversed(prompt) if m.role == "user"), "")
    return last[:HEAD_CHARACTERS]


def _prefix_key(request: GenerateRequest) -> str:
    """A digest of how the prompt begins: alike for the turns of one conversation, and for texts with the same
    preface. Prompts that may not share a cache have different ones."""
    digest = hashlib.blake2b(request.cache_salt.encode() + b"\0", digest_size=16)
    digest.update(_beginning(request.prompt).encode(errors="surrogatepass"))
    return digest.hexdigest()


def _beginning(prompt: Prompt) -> str:
    if isinstance(prompt, str):
        return prompt[:PREFIX_CHARACTERS]
    if isinstance(prompt, list):
        return ",".join(map(str, prompt[: PREFIX_CHARACTERS // 4]))
    turns = takewhile(lambda place: place == 0 or prompt[place - 1].role != "user", range(len(prompt)))
    return "\0".join(f"{prompt[place].role}\0{prompt[place].content}" for place in turns)[:PREFIX_CHARACTERS]


def _characters(prompt: Prompt) -> int:
    if isinstance(prompt, str):
        return len(prompt)
    if isinstance(prompt, list):
        return 0
    return sum(len(m.content) for m in prompt)
