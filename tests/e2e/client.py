"""A thin HTTP client of the running stack."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

MODEL = "smollm2-135m-instruct"


@dataclass
class Reply:
    text: str = ""
    finish_reason: str | None = None
    completion_tokens: int = 0
    tandem: dict[str, Any] = field(default_factory=dict)
    annotations: list[dict[str, Any]] = field(default_factory=list)

    @property
    def speculation(self) -> dict[str, Any]:
        stats: dict[str, Any] = self.tandem["speculation"]
        return stats


class Client:
    """``body`` holds messages or a prompt, and whatever else the request should say."""

    def __init__(self, url: str) -> None:
        self._http = httpx.AsyncClient(base_url=url, timeout=300)

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(self, body: dict[str, Any]) -> Reply:
        response = await self._http.post(_path(body), json={"model": MODEL, **body})
        assert response.status_code == 200, response.text
        answer = response.json()
        choice = answer["choices"][0]
        return Reply(
            text=choice["text"] if "text" in choice else choice["message"]["content"],
            finish_reason=choice["finish_reason"],
            completion_tokens=answer["usage"]["completion_tokens"],
            tandem=answer["tandem"],
            annotations=answer["tandem"]["annotations"],
        )

    async def ask_all(self, bodies: Sequence[dict[str, Any]], at_once: int) -> list[Reply]:
        """Answers in order, ``at_once`` requests in flight."""
        slots = asyncio.Semaphore(at_once)

        async def one(body: dict[str, Any]) -> Reply:
            async with slots:
                return await self.ask(body)

        return list(await asyncio.gather(*(one(body) for body in bodies)))

    async def stream(
        self, body: dict[str, Any], on_chunk: Callable[[int], None] = lambda count: None
    ) -> Reply:
        """The whole streamed answer; ``on_chunk`` is told how many chunks with text have come."""
        reply, chunks, done = Reply(), 0, False
        async for data in self._events(body):
            if data == "[DONE]":
                done = True
                break
            chunk = json.loads(data)
            assert "error" not in chunk, chunk
            reply.annotations += chunk.get("tandem", {}).get("annotations", [])
            if chunk.get("usage"):
                reply.completion_tokens = chunk["usage"]["completion_tokens"]
            for choice in chunk["choices"]:
                text = choice["text"] if "text" in choice else choice["delta"].get("content") or ""
                reply.text += text
                if choice["finish_reason"]:
                    reply.finish_reason, reply.tandem = choice["finish_reason"], chunk["tandem"]
                if text:
                    chunks += 1
                    on_chunk(chunks)
        assert done, "the stream ended without [DONE]"
        return reply

    async def _events(self, body: dict[str, Any]) -> AsyncIterator[str]:
        request = {"model": MODEL, "stream": True, "stream_options": {"include_usage": True}, **body}
        async with self._http.stream("POST", _path(body), json=request) as response:
            assert response.status_code == 200, await response.aread()
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    yield line.removeprefix("data: ")


def _path(body: dict[str, Any]) -> str:
    return "/v1/completions" if "prompt" in body else "/v1/chat/completions"
