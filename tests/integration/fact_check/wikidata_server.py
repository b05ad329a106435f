"""A server that speaks as much of the API of Wikidata as is used, and can misbehave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.valkey import free_port

Answer = tuple[int, dict[str, str], bytes]
Behaviour = Callable[[], Awaitable[Answer]]

BERLIN = {
    "labels": {"en": {"language": "en", "value": "Berlin"}},
    "claims": {
        "P1082": [
            {"rank": "preferred", "mainsnak": {"datavalue": {"value": {"amount": "+3677472", "unit": "1"}}}},
            {"rank": "normal", "mainsnak": {"datavalue": {"value": {"amount": "+1000000", "unit": "1"}}}},
        ],
        "P2046": [
            {
                "rank": "normal",
                "mainsnak": {
                    "datavalue": {
                        "value": {"amount": "+891.12", "unit": "http://www.wikidata.org/entity/Q712226"}
                    }
                },
            }
        ],
    },
}
ITEMS: dict[str, dict[str, Any]] = {"Q64": BERLIN}
NAMES = {"berlin": "Q64", "柏林": "Q64"}


class WikidataServer:
    """``async with``; each of ``behaviours`` is used for one request, then it answers as it should."""

    def __init__(self) -> None:
        self.port = free_port()
        self.asked: list[dict[str, str]] = []
        self.hosts: list[str] = []
        self.behaviours: list[Behaviour] = []
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/w/api.php"

    async def __aenter__(self) -> WikidataServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            self.hosts += [line[6:] for line in lines if line.lower().startswith("host: ")]
            status, headers, body = await self._answer(lines[0].split()[1])
            head = {"Content-Length": str(len(body)), "Connection": "close", **headers}
            written = "".join(f"{name}: {value}\r\n" for name, value in head.items())
            writer.write(f"HTTP/1.1 {status} -\r\n{written}\r\n".encode() + body)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, target: str) -> Answer:
        query = {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}
        self.asked.append(query)
        if self.behaviours:
            return await self.behaviours.pop(0)()
        return 200, {"Content-Type": "application/json"}, json.dumps(_content(query)).encode()


def _content(query: dict[str, str]) -> dict[str, Any]:
    if query["action"] == "wbsearchentities":
        found = NAMES.get(query["search"].lower())
        match = {"type": "label", "language": query["language"], "text": query["search"]}
        return {"search": [{"id": found, "label": "Berlin", "match": match}] if found else []}
    assert query["action"] == "wbgetentities"
    return {"entities": {query["ids"]: ITEMS[query["ids"]]}}


def answering(status: int, body: bytes = b"", seconds: float = 0.0, **headers: str) -> Behaviour:
    async def behave() -> Answer:
        await asyncio.sleep(seconds)
        return status, {name.replace("_", "-"): value for name, value in headers.items()}, body

    return behave
