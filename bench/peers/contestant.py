"""Who is measured: anything that answers prompts greedily, whether over HTTP or through a worker's lines."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

STREAMS = (1, 8)
_ANSWER_SECONDS = 600


@dataclass(frozen=True)
class Answered:
    """Prefill is part of ``seconds``."""

    tokens: int
    seconds: float


@dataclass(frozen=True)
class Row:
    """
    Attributes:
        name: in the tables.
        streams: how many prompts it can be given at once.
        prefills: whether its prefill is measured; the second mode of an engine has that of the first.
    """

    name: str
    streams: tuple[int, ...] = STREAMS
    prefills: bool = True


class Contestant(Protocol):
    @property
    def row(self) -> Row: ...

    async def answer(self, prompts: Sequence[str], streams: int, max_tokens: int) -> Answered:
        """Answer all prompts, at most ``streams`` at a time."""
        ...

    async def prefill(self, token_ids: Sequence[int]) -> float:
        """Seconds until the first token after ``token_ids``."""
        ...


class Server:
    """Any server with OpenAI's surface."""

    def __init__(
        self, row: Row, client: httpx.AsyncClient, model: str, body: Mapping[str, Any] | None = None
    ) -> None:
        """
        Args:
            client: its base URL is the server's.
            body: what every request says beside model, prompt and length.
        """
        self.row = row
        self._client = client
        self._body = {"model": model, "temperature": 0, **(body or {})}

    async def answer(self, prompts: Sequence[str], streams: int, max_tokens: int) -> Answered:
        gate = asyncio.Semaphore(streams)

        async def ask(prompt: str) -> int:
            messages = [{"role": "user", "content": prompt}]
            async with gate:
                return await self._post("/v1/chat/completions", {"messages": messages}, max_tokens)

        started = time.perf_counter()
        tokens = sum(await asyncio.gather(*map(ask, prompts)))
        return Answered(tokens, time.perf_counter() - started)

    async def prefill(self, token_ids: Sequence[int]) -> float:
        started = time.perf_counter()
        await self._post("/v1/completions", {"prompt": list(token_ids)}, 1)
        return time.perf_counter() - started

    async def _post(self, path: str, prompt: Mapping[str, Any], max_tokens: int) -> int:
        """How many tokens the answer has."""
        response = await self._client.post(path, json={**self._body, **prompt, "max_tokens": max_tokens})
        response.raise_for_status()
        return int(response.json()["usage"]["completion_tokens"])


class Worker:
    """A library in a process of its own, spoken to as ``bench.peers.workers.lines`` describes."""

    def __init__(self, row: Row, process: asyncio.subprocess.Process) -> None:
        self.row = row
        self._process = process

    async def answer(self, prompts: Sequence[str], streams: int, max_tokens: int) -> Answered:
        request = {"prompts": list(prompts), "streams": streams, "max_tokens": max_tokens}
        return Answered(**await self._call(request))

    async def prefill(self, token_ids: Sequence[int]) -> float:
        return float((await self._call({"token_ids": list(token_ids)}))["seconds"])

    async def _call(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        return await self.reply(_ANSWER_SECONDS)

    async def reply(self, seconds: float) -> dict[str, Any]:
        """The worker's next line."""
        assert self._process.stdout is not None
        async with asyncio.timeout(seconds):
            line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.row.name} has gone")
        reply: dict[str, Any] = json.loads(line)
        return reply
