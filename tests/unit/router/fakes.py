"""Stand-ins at the router's boundaries: time, status polls, and the services behind it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc.aio

from common import rpc
from common.errors import Unavailable
from protos.tandem.v1 import draft_pb2, types_pb2, verify_pb2
from protos.tandem.v1.draft_pb2_grpc import DraftServiceServicer, add_DraftServiceServicer_to_server
from protos.tandem.v1.verify_pb2_grpc import VerifyServiceServicer, add_VerifyServiceServicer_to_server
from router.breaker import Breaker, Limits, Reason
from router.registry import VERIFY_POOL, Endpoint, Registry, Report

Context = grpc.aio.ServicerContext[object, object]


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def limits(failures: int = 3) -> Limits:
    return Limits(failures, slow_seconds=0.5, window=4, open_seconds=2.0, max_open_seconds=10.0)


@dataclass
class FakePeers:
    """A pool that can do without an endpoint, or not."""

    spare: bool = True
    told: list[Reason] = field(default_factory=list)

    def may_eject(self) -> bool:
        return self.spare

    def opened(self, reason: Reason) -> None:
        self.told.append(reason)


def registry(
    verify: Sequence[str] = (), clock: Clock | None = None, failures: int = 3, **drafts: Sequence[str]
) -> Registry:
    """Endpoints that were never polled."""
    known = Registry(lambda pool: Breaker(limits(failures), pool, clock or Clock()))
    known.replace(VERIFY_POOL, verify)
    for pool, addresses in drafts.items():
        known.replace(pool, addresses)
    return known


def endpoint(known: Registry, address: str) -> Endpoint:
    found = known.find(address)
    assert found
    return found


@dataclass
class FakeStatusClient:
    """Answers from ``reports``; an address without one is unreachable, one in ``hanging`` waits."""

    reports: dict[str, Report] = field(default_factory=dict)
    hanging: dict[str, asyncio.Event] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)

    async def forget(self, address: str) -> None:
        self.forgotten.append(address)

    async def status(self, endpoint: Endpoint) -> Report:
        self.calls.append(endpoint.address)
        if endpoint.address in self.hanging:
            await self.hanging[endpoint.address].wait()
        if endpoint.address not in self.reports:
            raise Unavailable("connection refused")
        return self.reports[endpoint.address]


class FakeDraft(DraftServiceServicer):
    """A draft service of which only the status is there."""

    def __init__(self, **status: object) -> None:
        self.status = draft_pb2.DraftStatus(ready=True)
        self.hang = False
        self.set(**status)

    def set(self, **status: object) -> None:
        for name, value in status.items():
            setattr(self.status, name, value)

    async def Propose(  # noqa: N802
        self, request_iterator: object, context: Context
    ) -> AsyncIterator[draft_pb2.ProposeResponse]:
        raise NotImplementedError
        yield

    async def Status(  # noqa: N802
        self, request: types_pb2.StatusRequest, context: Context
    ) -> draft_pb2.DraftStatus:
        if self.hang:
            await asyncio.Event().wait()
        return self.status


class FakeVerify(VerifyServiceServicer):
    """A verify service of which only the status is there."""

    def __init__(self, **status: object) -> None:
        self.status = verify_pb2.VerifyStatus(ready=True)
        self.set(**status)

    def set(self, **status: object) -> None:
        for name, value in status.items():
            setattr(self.status, name, value)

    async def Generate(  # noqa: N802
        self, request: verify_pb2.GenerateRequest, context: Context
    ) -> AsyncIterator[verify_pb2.GenerateResponse]:
        raise NotImplementedError
        yield

    async def Tokenize(  # noqa: N802
        self, request: verify_pb2.TokenizeRequest, context: Context
    ) -> verify_pb2.TokenizeResponse:
        raise NotImplementedError

    async def Detokenize(  # noqa: N802
        self, request: verify_pb2.DetokenizeRequest, context: Context
    ) -> verify_pb2.DetokenizeResponse:
        raise NotImplementedError

    async def Status(  # noqa: N802
        self, request: types_pb2.StatusRequest, context: Context
    ) -> verify_pb2.VerifyStatus:
        return self.status


@asynccontextmanager
async def listening(service: FakeDraft | FakeVerify, port: int = 0) -> AsyncIterator[str]:
    """The service on a real port; its address."""
    server = rpc.Server(f"127.0.0.1:{port}")
    if isinstance(service, FakeDraft):
        add_DraftServiceServicer_to_server(service, server.grpc)
    else:
        add_VerifyServiceServicer_to_server(service, server.grpc)
    await server.start()
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        await server.drain(0)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def eventually(check: Callable[[], Awaitable[bool]], within_seconds: float = 30.0) -> None:
    """Returns as soon as ``check`` holds; raises TimeoutError when it does not in time."""
    async with asyncio.timeout(within_seconds):
        while not await check():
            await asyncio.sleep(0.005)
