"""What each route does."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import ExitStack

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from common.errors import InvalidRequest
from gateway import sse
from gateway.admission import Admission
from gateway.body import read_body
from gateway.config import Config
from gateway.disconnect import EventStream, unless_disconnected
from gateway.errors import ModelNotFound
from gateway.generation import Choices, begin
from gateway.planner import Planner
from gateway.readiness import Readiness
from gateway.responses import ChatShape, Json, Renderer, Shape, TextShape, Whole, model_object
from gateway.schema import ChatBody, CompletionBody, GenerationBody, parse
from gateway.translate import to_choices, to_generate
from gateway.verify_client import VerifyClient

ROUTE_HEADER = "x-tandem-route"


class Endpoints:
    """The handlers of one gateway, with the parts they share."""

    def __init__(
        self,
        config: Config,
        admission: Admission,
        planner: Planner,
        verify: VerifyClient,
        readiness: Readiness,
    ) -> None:
        self._config = config
        self._admission = admission
        self._planner = planner
        self._verify = verify
        self._readiness = readiness
        self._created = int(time.time())

    async def slot(self, request: Request) -> AsyncIterator[None]:
        """A dependency: holds one of the gateway's slots, and those added to ``slots``, until the response is
        sent."""
        with ExitStack() as slots:
            slots.enter_context(self._admission.slot())
            request.state.slots = slots
            yield

    async def chat(self, request: Request) -> Response:
        return await self._generate(request, ChatBody, ChatShape())

    async def complete(self, request: Request) -> Response:
        return await self._generate(request, CompletionBody, TextShape())

    async def models(self) -> Response:
        models = [model_object(name, self._created) for name in self._config.models]
        return JSONResponse({"object": "list", "data": models})

    async def model(self, model: str) -> Response:
        self._require_model(model)
        return JSONResponse(model_object(model, self._created))

    async def alive(self) -> Response:
        return JSONResponse({"status": "alive"})

    async def ready(self) -> Response:
        if self._admission.draining:
            return JSONResponse({"status": "draining"}, 503)
        if not await self._readiness.ready():
            return JSONResponse({"status": "waiting for the router and a verify replica"}, 503)
        return JSONResponse({"status": "ready"})

    async def metrics(self) -> Response:
        return Response(generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _generate(
        self, request: Request, kind: type[ChatBody | CompletionBody], shape: Shape
    ) -> Response:
        config, request_id = self._config, request.state.request_id
        body = parse(kind, await read_body(request, config.max_body_bytes, config.request_timeout_seconds))
        asked = to_choices(to_generate(body, request_id), self._num_choices(body))
        self._require_model(body.model)
        for _ in asked[1:]:
            request.state.slots.enter_context(self._admission.slot())
        start = begin(self._planner, self._verify, asked, body.model)
        choices = await unless_disconnected(request.receive, start)
        renderer = Renderer(
            shape,
            request_id,
            body.model,
            int(time.time()),
            choices.plan,
            choices.started,
            include_usage=bool(body.stream_options and body.stream_options.include_usage),
            logprobs=asked[0].top_logprobs is not None,
            trace=asked[0].speculation.trace,
        )
        explained = _explained(request, choices)
        if body.stream:
            return EventStream(sse.stream(renderer, choices), choices, explained)
        answer = await unless_disconnected(request.receive, _collect(renderer, choices))
        return JSONResponse(answer, headers=explained)

    def _num_choices(self, body: GenerationBody) -> int:
        n = body.n or 1
        if n > self._config.max_choices:
            raise InvalidRequest(f"n must be at most {self._config.max_choices}", field="n")
        return n

    def _require_model(self, name: str) -> None:
        if name not in self._config.models:
            raise ModelNotFound(name)


def _explained(request: Request, choices: Choices) -> dict[str, str]:
    """Why the request was routed as it was, for a client that sends the header itself."""
    if ROUTE_HEADER not in request.headers:
        return {}
    reason = choices.plan.reason.encode("ascii", "replace").decode()
    return {ROUTE_HEADER: "".join(map(_printable, reason))}


def _printable(character: str) -> str:
    return character if character.isprintable() else "?"


async def _collect(renderer: Renderer, choices: Choices) -> Json:
    """The whole answer as one object; a failure on the way is an ordinary error response."""
    wholes = [Whole() for _ in range(len(choices))]
    try:
        async for index, event in choices:
            wholes[index].add(event)
    finally:
        await choices.aclose()
    return renderer.answer(wholes)
