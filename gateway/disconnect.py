"""Work that stops when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from common.errors import Cancelled
from gateway.generation import Choices

T = TypeVar("T")


async def unless_disconnected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which is cancelled as soon as the client leaves. The body must be read before.

    Raises:
        Cancelled: when the client left first.
    """
    worker = asyncio.create_task(work)
    watcher = asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait((worker, watcher), return_when=asyncio.FIRST_COMPLETED)
        if not worker.done():
            raise Cancelled("the client left")
        return worker.result()
    finally:
        worker.cancel()
        watcher.cancel()
        await asyncio.gather(worker, watcher, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(StreamingResponse):
    """Sends an answer's events as fast as the client reads them, and ends the answer when it leaves."""

    media_type = "text/event-stream"

    def __init__(
        self, content: AsyncGenerator[bytes, None], choices: Choices, headers: Mapping[str, str]
    ) -> None:
        own = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(content, headers={**own, **headers})
        self._choices = choices

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with suppress(Cancelled):
                await unless_disconnected(receive, self.stream_response(send))
        finally:
            await self._choices.aclose()
