"""A server that speaks as much of the API of Kubernetes as discovery needs: lists and watches of slices.

It keeps a history of changes, as the real one does, and can lose it, fall silent, drop connections, go away.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Json = dict[str, Any]
NAMESPACE = "tandem"
TOKEN = "secret"
_PATH = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"


@dataclass(frozen=True)
class Asked:
    """One request."""

    path: str
    query: dict[str, str]
    authorization: str

    @property
    def watching(self) -> bool:
        return self.query.get("watch") in ("true", "True")


@dataclass
class _Watcher:
    selector: str
    seconds: float | None
    lines: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)


class KubernetesApi:
    """``async with``. Changes are told to whom watches them, and kept for whom resumes.

    Attributes:
        asked: every request, in order.
        refusals: HTTP statuses, each for one request, before any is answered as it should be.
        gone_as_status: whether a version that is too old is refused by an HTTP status, else by an event.
        endless: whether watches go on silently when their time is over, as on a dead connection.
    """

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.refusals: list[int] = []
        self.gone_as_status = False
        self.endless = False
        self.port = 0
        self._version = 100
        self._oldest = 100
        self._slices: dict[str, Json] = {}
        self._history: list[tuple[int, str, Json]] = []
        self._watchers: list[_Watcher] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    @property
    def lists(self) -> list[Asked]:
        return [asked for asked in self.asked if not asked.watching]

    @property
    def watches(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.watching]

    @property
    def version(self) -> str:
        return str(self._version)

    async def __aenter__(self) -> KubernetesApi:
        await self.come_back()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.go_away()

    async def come_back(self) -> None:
        """Listen, after ``go_away`` on the same port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def go_away(self) -> None:
        """Refuse connections, and drop those there are."""
        if self._server:
            self._server.close()
        self.drop()

    def drop(self) -> None:
        """Break every connection in the middle of what it says."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
        self._watchers.clear()

    def kubeconfig(self, folder: Path) -> str:
        """The path of a file, made in ``folder``, that leads here."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "router", "user": {"token": TOKEN}}],
            "contexts": [
                {"name": "it", "context": {"cluster": "here", "user": "router", "namespace": NAMESPACE}}
            ],
            "current-context": "it",
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(content))  # which is YAML
        return str(path)

    def put(self, piece: Json) -> None:
        """Add or replace a slice."""
        known = piece["metadata"]["name"] in self._slices
        self._change("MODIFIED" if known else "ADDED", piece)
        self._slices[piece["metadata"]["name"]] = self._history[-1][2]

    def delete(self, name: str) -> None:
        self._change("DELETED", self._slices.pop(name))

    def _change(self, kind: str, piece: Json) -> None:
        self._version += 1
        piece = piece | {"metadata": piece["metadata"] | {"resourceVersion": self.version}}
        self._history.append((self._version, kind, piece))
        for watcher in self._watchers:
            self._tell(watcher, kind, piece)

    def bookmark(self) -> None:
        """Tell those who watch that nothing of theirs changed up to a newer version."""
        self._version += 1
        piece = {"kind": "EndpointSlice", "metadata": {"resourceVersion": self.version}}
        for watcher in self._watchers:
            watcher.lines.put_nowait(_line("BOOKMARK", piece))

    def forget_history(self) -> None:
        """No watch can resume from a version before the one now."""
        self._version += 1
        self._oldest = self._version
        self._history.clear()

    def say(self, line: bytes) -> None:
        """Send something to those who watch."""
        for watcher in self._watchers:
            watcher.lines.put_nowait(line)

    def end_watches(self) -> None:
        """End the answers to those who watch, as when their time is over."""
        self.say(b"")

    def _tell(self, watcher: _Watcher, kind: str, piece: Json) -> None:
        if _selects(watcher.selector, piece):
            watcher.lines.put_nowait(_line(kind, piece))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await self._answer(await _read(reader), writer)
        self._writers.discard(writer)
        writer.close()

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        self.asked.append(asked)
        if self.refusals:
            await _send(writer, self.refusals.pop(0), {"kind": "Status", "message": "not now"})
        elif asked.path != _PATH:
            await _send(writer, 404, {"kind": "Status", "code": 404})
        elif asked.watching:
            await self._watch(asked, writer)
        else:
            await _send(writer, 200, self._list(asked))

    def _list(self, asked: Asked) -> Json:
        selector = asked.query.get("labelSelector", "")
        selected = [piece for piece in self._slices.values() if _selects(selector, piece)]
        return {"kind": "EndpointSliceList", "metadata": {"resourceVersion": self.version}, "items": selected}

    async def _watch(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        since = int(asked.query["resourceVersion"])
        gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": f"too old: {since}"}
        if since < self._oldest and self.gone_as_status:
            await _send(writer, 410, gone)
            return
        seconds = None if self.endless else float(asked.query["timeoutSeconds"])
        watcher = _Watcher(asked.query.get("labelSelector", ""), seconds)
        if since < self._oldest:
            watcher.lines.put_nowait(_line("ERROR", gone))
            watcher.lines.put_nowait(b"")
        for version, kind, piece in self._history:
            if version > since:
                self._tell(watcher, kind, piece)
        self._watchers.append(watcher)
        try:
            await _stream(watcher, writer)
        finally:
            if watcher in self._watchers:
                self._watchers.remove(watcher)


async def _stream(watcher: _Watcher, writer: asyncio.StreamWriter) -> None:
    """Lines as chunks until an empty one, or until the watcher's time is over."""
    writer.write(_head(200, "Transfer-Encoding: chunked"))
    with suppress(TimeoutError):
        async with asyncio.timeout(watcher.seconds):
            while line := await watcher.lines.get():
                writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _read(reader: asyncio.StreamReader) -> Asked:
    first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    url = urlsplit(first.split()[1])
    headers = dict(line.lower().split(": ", 1) for line in rest if line)
    return Asked(url.path, dict(parse_qsl(url.query)), headers.get("authorization", ""))


async def _send(writer: asyncio.StreamWriter, status: int, content: Json) -> None:
    body = json.dumps(content).encode()
    writer.write(_head(status, f"Content-Length: {len(body)}") + body)
    await writer.drain()


def _head(status: int, framing: str) -> bytes:
    return f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\n{framing}\r\n\r\n".encode()


def _line(kind: str, piece: Json) -> bytes:
    return json.dumps({"type": kind, "object": piece}).encode() + b"\n"


def _selects(selector: str, piece: Json) -> bool:
    """``name`` and ``name=value``, joined by commas."""
    labels = piece["metadata"].get("labels", {})
    terms = [term.partition("=") for term in selector.split(",") if term]
    return all(name in labels and (not equals or labels[name] == value) for name, equals, value in terms)


def endpoint(address: str, **conditions: bool | None) -> Json:
    """An endpoint of a slice; ready unless its conditions say otherwise."""
    return {"addresses": [address], "conditions": {"ready": True} | conditions}


def of_pod(uid: str, address: str) -> Json:
    """A ready endpoint that is known to be of a pod."""
    return endpoint(address) | {"targetRef": {"kind": "Pod", "uid": uid}}


def endpoint_slice(name: str, pool: str, endpoints: Sequence[Json], port: int = 50053, **fields: Any) -> Json:
    """A slice of IPv4 endpoints with one port; ``fields`` take the place of what it has."""
    return {
        "metadata": {"name": name, "labels": {"tandem.io/pool": pool}},
        "addressType": "IPv4",
        "ports": [{"name": "grpc", "port": port}],
        "endpoints": list(endpoints),
    } | fields
