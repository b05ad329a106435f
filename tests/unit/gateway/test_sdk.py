"""The OpenAI SDK works against the gateway as against OpenAI."""

from __future__ import annotations

from collections.abc import AsyncIterator

import openai
import pytest

from common.errors import Internal, InvalidRequest, Overloaded, Unavailable
from tests.unit.gateway.fakes import MODEL, STARTED, Backend, delta, live_gateway, script


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
