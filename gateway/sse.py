"""Server-sent events: the byte form, and the events of one streamed answer."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

from common.errors import TandemError
from common.types import Finished
from gateway.generation import Choices
from gateway.responses import Json, Renderer, Whole

DONE = b"data: [DONE]\n\n"


def encode(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return b"data: " + text.encode() + b"\n\n"


async def stream(renderer: Renderer, choices: Choices) -> AsyncGenerator[bytes, None]:
    """Chunks, then ``[DONE]``; or, when an answer breaks, one error event and nothing after it."""
    try:
        async for chunk in _chunks(renderer, choices):
            yield encode(chunk)
    except TandemError as error:
        yield encode(error.to_openai())
    else:
        yield DONE


async def _chunks(renderer: Renderer, choices: Choices) -> AsyncGenerator[Json, None]:
    wholes = [Whole() for _ in range(len(choices))]
    for index in range(len(choices)):
        for chunk in renderer.opening(index):
            yield chunk
    async for index, event in choices:
        whole = wholes[index]
        if isinstance(event, Finished):
            whole.finished = event
            yield renderer.finish(index, whole)
        else:
            whole.annotations += event.annotations
            for chunk in renderer.delta(index, event):
                yield chunk
    for chunk in renderer.usage([whole.finished.usage for whole in wholes if whole.finished]):
        yield chunk
