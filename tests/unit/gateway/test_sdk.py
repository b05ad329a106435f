"""The OpenAI SDK works against the gateway as against OpenAI."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import openai
import pydantic
import pytest

from common.errors import Internal, InvalidRequest, Overloaded, Unavailable
from common.types import Delta, ScoredToken, TokenLogprobs
from tests.unit.gateway.fakes import FINISHED, MODEL, STARTED, Backend, delta, live_gateway, script


@pytest.fixture
async def sdk(backend: Backend) -> AsyncIterator[openai.AsyncOpenAI]:
    async with (
        live_gateway(backend) as url,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as sdk,
    ):
        yield sdk


async def test_it_chats_and_sends_the_answer_back_as_history(
    sdk: openai.AsyncOpenAI, backend: Backend
) -> None:
    answer = await sdk.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}])
    message = answer.choices[0].message
    assert (message.content, answer.choices[0].finish_reason) == ("Hello", "stop")
    assert answer.usage is not None
    assert answer.usage.total_tokens == 7
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 3
    assert answer.model_extra is not None
    assert answer.model_extra["tandem"]["prompt_class"] == "chat"
    history = [message, {"role": "user", "content": "More"}]
    await sdk.chat.completions.create(model=MODEL, messages=history)  # type: ignore[arg-type]
    assert [m.content for m in backend.verify.requests[-1].prompt] == ["Hello", "More"]  # type: ignore[union-attr]


async def test_it_streams_a_chat(sdk: openai.AsyncOpenAI) -> None:
    stream = await sdk.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Hi"}],
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"top_k": 5, "speculation": {"block_size": 4}},
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Hello"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 2


async def test_it_completes_text(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.completions.create(model=MODEL, prompt="Once")
    assert answer.choices[0].text == "Hello"
    stream = await sdk.completions.create(model=MODEL, prompt=[1, 2], stream=True)
    assert "".join([chunk.choices[0].text async for chunk in stream]) == "Hello"


async def test_it_lists_models(sdk: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in sdk.models.list()] == [MODEL]
    assert (await sdk.models.retrieve(MODEL)).owned_by == "tandem"


async def test_it_raises_its_own_errors(sdk: openai.AsyncOpenAI, backend: Backend) -> None:
    for error, expected in (
        (InvalidRequest("too long", field="messages"), openai.BadRequestError),
        (Overloaded("full"), openai.RateLimitError),
        (Unavailable("starting"), openai.InternalServerError),
    ):
        backend.verify.script = script(error)
        with pytest.raises(expected):
            await sdk.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}])
    with pytest.raises(openai.NotFoundError):
        await sdk.models.retrieve("gpt-9")


async def test_it_notices_a_stream_that_breaks(sdk: openai.AsyncOpenAI, backend: Backend) -> None:
    backend.verify.script = script(STARTED, delta("a"), Internal("it broke"))
    stream = await sdk.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "Hi"}], stream=True
    )
    with pytest.raises(openai.APIError, match="it broke"):
        async for _ in stream:
            pass


def scored(text: bytes, logprob: float) -> TokenLogprobs:
    chosen = ScoredToken(7, logprob, text)
    return TokenLogprobs(chosen, (ScoredToken(8, -0.25, b"x"), chosen))


def with_logprobs(text: str, *tokens: TokenLogprobs) -> Delta:
    return replace(delta(text), logprobs=tokens)


LOGPROBS = script(
    STARTED,
    with_logprobs("Hel", scored(b"Hel", -0.5)),
    with_logprobs("", scored(b"\xc3", -1.5)),
    with_logprobs("é", scored(b"\xa9", -2.5)),
    FINISHED,
)
SCORES = [-0.5, -1.5, -2.5]


async def test_it_reads_the_log_probabilities_of_a_chat(sdk: openai.AsyncOpenAI, backend: Backend) -> None:
    backend.verify.script = LOGPROBS
    answer = await sdk.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "Hi"}], logprobs=True, top_logprobs=2
    )
    assert backend.verify.requests[-1].top_logprobs == 2
    assert answer.choices[0].message.content == "Helé"
    assert answer.choices[0].logprobs
    content = answer.choices[0].logprobs.content
    assert content
    assert [token.logprob for token in content] == SCORES
    assert [token.token for token in content] == ["Hel", "�", "�"]
    assert bytes(b for token in content for b in token.bytes or ()).decode() == "Helé"
    assert [(top.token, top.logprob, top.bytes) for top in content[0].top_logprobs] == [
        ("x", -0.25, [120]),
        ("Hel", -0.5, [72, 101, 108]),
    ]


async def test_it_streams_the_log_probabilities_of_a_chat(sdk: openai.AsyncOpenAI, backend: Backend) -> None:
    backend.verify.script = LOGPROBS
    stream = await sdk.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "Hi"}], logprobs=True, stream=True
    )
    choices = [chunk.choices[0] async for chunk in stream]
    streamed = [t for choice in choices if choice.logprobs for t in choice.logprobs.content or ()]
    assert [token.logprob for token in streamed] == SCORES
    assert "".join(choice.delta.content or "" for choice in choices) == "Helé"


@pytest.mark.parametrize("stream", [False, True])
async def test_it_reads_the_log_probabilities_of_a_completion(
    sdk: openai.AsyncOpenAI, backend: Backend, stream: bool
) -> None:
    backend.verify.script = LOGPROBS
    if stream:
        chunks = await sdk.completions.create(model=MODEL, prompt="Once", logprobs=2, stream=True)
        parts = [chunk.choices[0].logprobs async for chunk in chunks]
    else:
        parts = [(await sdk.completions.create(model=MODEL, prompt="Once", logprobs=2)).choices[0].logprobs]
    found = [part for part in parts if part]
    assert [score for part in found for score in part.token_logprobs or ()] == SCORES
    assert [token for part in found for token in part.tokens or ()] == ["Hel", "�", "�"]
    assert [offset for part in found for offset in part.text_offset or ()] == [0, 3, 4]
    assert found[0].top_logprobs
    assert found[0].top_logprobs[0] == {"Hel": -0.5, "x": -0.25}


@pytest.mark.parametrize("stream", [False, True])
async def test_it_asks_for_json_by_a_schema(sdk: openai.AsyncOpenAI, backend: Backend, stream: bool) -> None:
    class Person(pydantic.BaseModel):
        name: str

    backend.verify.script = script(STARTED, delta('{"name":'), delta(' "Bo"}'), FINISHED)
    if stream:
        async with sdk.chat.completions.stream(
            model=MODEL, messages=[{"role": "user", "content": "Hi"}], response_format=Person
        ) as streaming:
            parsed = (await streaming.get_final_completion()).choices[0].message.parsed
    else:
        answer = await sdk.chat.completions.parse(
            model=MODEL, messages=[{"role": "user", "content": "Hi"}], response_format=Person
        )
        parsed = answer.choices[0].message.parsed
    assert parsed == Person(name="Bo")
    constraint = backend.verify.requests[-1].constraint
    assert constraint
    assert json.loads(constraint.text)["properties"] == {"name": {"title": "Name", "type": "string"}}


@pytest.mark.parametrize("stream", [False, True])
async def test_it_reads_several_choices(sdk: openai.AsyncOpenAI, backend: Backend, stream: bool) -> None:
    texts = ["", "", ""]
    if stream:
        chunks = await sdk.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "Hi"}], n=3, seed=4, stream=True
        )
        async for chunk in chunks:
            texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    else:
        answer = await sdk.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "Hi"}], n=3, seed=4
        )
        assert [choice.index for choice in answer.choices] == [0, 1, 2]
        texts = [choice.message.content or "" for choice in answer.choices]
        assert answer.usage
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (5, 6)
    assert texts == ["Hello"] * 3
