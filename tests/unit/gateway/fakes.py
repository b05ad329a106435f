# ruff: noqa: N802 - gRPC names the methods
"""A router and a verify service that do as they are told, over real gRPC, and a gateway in front of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NoReturn

import grpc.aio
import httpx
from fastapi import FastAPI

from common import rpc
from common.codec import event_to_proto, generate_from_proto, plan_to_proto, route_from_proto
from common.errors import TandemError
from common.http_server import HttpServer
from common.types import (
    Annotation,
    Delta,
    DraftEndpoint,
    Finished,
    FinishReason,
    GenerateEvent,
    GenerateRequest,
    Mode,
    Origin,
    Plan,
    Provenance,
    RouteRequest,
    SpeculationStats,
    Started,
    Usage,
)
from gateway.admission import Admission
from gateway.app import create_app
from gateway.config import Config
from gateway.router_client import RouterClient
from gateway.verify_client import VerifyClient
from protos.tandem.v1 import router_pb2, types_pb2, verify_pb2
from protos.tandem.v1.router_pb2_grpc import RouterServiceServicer, add_RouterServiceServicer_to_server
from protos.tandem.v1.verify_pb2_grpc import VerifyServiceServicer, add_VerifyServiceServicer_to_server

MODEL = "smollm2-135m-instruct"
DRAFTS = (DraftEndpoint("small", "127.0.0.1:1"), DraftEndpoint("ngram", "127.0.0.1:2"))

Step = GenerateEvent | TandemError | asyncio.Event
Script = Callable[[], AsyncIterator[GenerateEvent]]
Context = grpc.aio.ServicerContext[Any, Any]

STARTED = Started(MODEL, prompt_tokens=5, mode=Mode.REJECTION, system_fingerprint="fp-1")
STATS = SpeculationStats(
    steps=4,
    drafts=2,
    draft_tokens=8,
    accepted_tokens=3,
    accepted_per_position=[2, 1, 0, 0],
    drafted_per_position=[2, 2, 2, 2],
    missed_waits=1,
    vetoed_tokens=1,
    tags_missing=2,
    invalid_tokens=3,
)
FINISHED = Finished(FinishReason.STOP, Usage(prompt_tokens=5, completion_tokens=2, cached_tokens=3), STATS)
FLAG = Annotation(0, 2, "Paris has 90 people", "contradicted", "population", "2.1 million")


def delta(text: str, *annotations: Annotation) -> Delta:
    return Delta((7,), (Provenance(Origin.TARGET),), text, annotations)


def script(*steps: Step) -> Script:
    """Sends the events, waits for the ``asyncio.Event``s and raises the errors, in their order."""

    async def play() -> AsyncIterator[GenerateEvent]:
        for step in steps:
            if isinstance(step, TandemError):
                raise step
            if isinstance(step, asyncio.Event):
                await step.wait()
            else:
                yield step

    return play


HELLO = script(STARTED, delta("Hel"), delta("lo"), FINISHED)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what only polling shows."""
    async with asyncio.timeout(10):
        while True:
            if condition():
                return
            await asyncio.sleep(0.005)


class FakeVerify(VerifyServiceServicer):
    """Plays ``script`` for every request, keeping the requests and whether a call was cancelled."""

    def __init__(self) -> None:
        self.script = HELLO
        self.requests: list[GenerateRequest] = []
        self.cancelled = asyncio.Event()
        self.sent = 0

    async def Generate(
        self, request: verify_pb2.GenerateRequest, context: Context
    ) -> AsyncIterator[verify_pb2.GenerateResponse]:
        self.requests.append(generate_from_proto(request))
        async with rpc.aborting(context):
            try:
                async for event in self.script():
                    yield event_to_proto(event)
                    self.sent += 1
            except (asyncio.CancelledError, GeneratorExit):  # the second when cancelled in a write
                self.cancelled.set()
                raise

    def Tokenize(self, request: verify_pb2.TokenizeRequest, context: Context) -> NoReturn:
        raise NotImplementedError

    def Detokenize(self, request: verify_pb2.DetokenizeRequest, context: Context) -> NoReturn:
        raise NotImplementedError

    def Status(self, request: types_pb2.StatusRequest, context: Context) -> NoReturn:
        raise NotImplementedError


class FakeRouter(RouterServiceServicer):
    """Answers with ``plan``, or raises ``error``; with the address ``dead`` where a request may go there."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.error: TandemError | None = None
        self.dead = ""
        self.requests: list[RouteRequest] = []
        self.ready = True
        self.verify_ready = True
        self.status_calls = 0

    async def Route(self, request: router_pb2.RouteRequest, context: Context) -> router_pb2.RouteResponse:
        self.requests.append(route_from_proto(request))
        if self.error:
            await rpc.abort(context, self.error)
        if self.dead and self.dead not in request.avoid:
            return plan_to_proto(replace(self.plan, verify_address=self.dead))
        return plan_to_proto(self.plan)

    async def Status(self, request: types_pb2.StatusRequest, context: Context) -> router_pb2.RouterStatus:
        self.status_calls += 1
        verify = router_pb2.EndpointStatus(
            pool="verify", address=self.plan.verify_address, ready=self.verify_ready
        )
        return router_pb2.RouterStatus(ready=self.ready, verify=[verify])


class Backend:
    """Both fakes, listening. Either can be stopped while the other goes on."""

    def __init__(self) -> None:
        self.verify = FakeVerify()
        self.verify_server = rpc.Server("127.0.0.1:0")
        add_VerifyServiceServicer_to_server(self.verify, self.verify_server.grpc)
        plan = Plan("chat", f"127.0.0.1:{self.verify_server.port}", DRAFTS, "first match")
        self.router = FakeRouter(plan)
        self.router_server = rpc.Server("127.0.0.1:0")
        add_RouterServiceServicer_to_server(self.router, self.router_server.grpc)
        self.router_address = f"127.0.0.1:{self.router_server.port}"

    async def start(self) -> None:
        await self.verify_server.start()
        await self.router_server.start()

    async def stop(self) -> None:
        await self.router_server.drain(0)
        await self.verify_server.drain(0)


@asynccontextmanager
async def gateway_app(backend: Backend, **settings: Any) -> AsyncIterator[FastAPI]:
    """The application over the backend, without a web server."""
    config = Config(router_address=backend.router_address, **settings)
    router = RouterClient(config.router_address, config.route_timeout_seconds)
    verify = VerifyClient(config.request_timeout_seconds)
    try:
        yield create_app(config, Admission(config.max_concurrent), router, verify)
    finally:
        await verify.close()
        await router.close()


@asynccontextmanager
async def direct_client(backend: Backend, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Speaks to the application without a network; its answers arrive whole."""
    async with gateway_app(backend, **settings) as app:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            yield client


@asynccontextmanager
async def live_gateway(backend: Backend, **settings: Any) -> AsyncIterator[str]:
    """The base URL of the application behind a real web server."""
    async with gateway_app(backend, **settings) as app:
        server = HttpServer(app, "127.0.0.1", 0)
        serving = asyncio.create_task(server.serve())
        await until(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving
