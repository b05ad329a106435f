"""Server-sent events: the byte form, and the events of one streamed answer."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable

from common.errors import TandemError
from common.types import Annotation, Delta, Finished
from gateway.responses import Json, Renderer

DONE = b"data: [DONE]\n\n"


def encode(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return b"data: " + text.encode() + b"\n\n"


async def stream(renderer: Renderer, events: AsyncIterable[Delta | Finished]) -> AsyncGenerator[bytes, None]:
    """Chunks, then ``[DONE]``; or, when the answer breaks, one error event and nothing after it."""
    try:
        async for chunk in _chunks(renderer, events):
            yield encode(chunk)
    except TandemError as error:
        yield encode(error.to_openai())
    else:
        yield DONE


async def _chunks(renderer: Renderer, events: AsyncIterable[Delta | Finished]) -> AsyncGenerator[Json, None]:
    annotations: list[Annotation] = []
    usage: list[Json] = []
    for chunk in renderer.opening():
        yield chunk
    async for event in events:
        if isinstance(event, Finished):
            usage = renderer.usage(event)
            yield renderer.finish(annotations, event)
        else:
            annotations += event.annotations
            for chunk in renderer.delta(event):
                yield chunk
    for chunk in usage:
        yield chunk
