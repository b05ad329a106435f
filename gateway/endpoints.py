"""What each route does."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from common.types import Annotation, Finished
from gateway import sse
from gateway.admission import Admission
from gateway.body import read_body
from gateway.config import Config
from gateway.disconnect import EventStream, unless_disconnected
from gateway.errors import ModelNotFound
from gateway.generation import Generation, begin
from gateway.planner import Planner
from gateway.readiness import Readiness
from gateway.responses import ChatShape, Json, Renderer, Shape, TextShape, model_object
from gateway.schema import ChatBody, CompletionBody, parse
from gateway.translate import to_generate
from gateway.verify_client import VerifyClient


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

    async def slot(self) -> AsyncIterator[None]:
        """A dependency: holds one of the gateway's slots until the response is sent."""
        with self._admission.slot():
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
        asked = to_generate(body, request_id)
        self._require_model(body.model)
        start = begin(self._planner, self._verify, asked, body.model)
        generation = await unless_disconnected(request.receive, start)
        include_usage = bool(body.stream_options and body.stream_options.include_usage)
        renderer = Renderer(
            shape,
            request_id,
            body.model,
            int(time.time()),
            generation.plan,
            generation.started,
            include_usage,
        )
        if body.stream:
            return EventStream(sse.stream(renderer, generation), generation)
        return JSONResponse(await unless_disconnected(request.receive, _collect(renderer, generation)))

    def _require_model(self, name: str) -> None:
        if name not in self._config.models:
            raise ModelNotFound(name)


async def _collect(renderer: Renderer, generation: Generation) -> Json:
    """The whole answer as one object; a failure on the way is an ordinary error response."""
    text: list[str] = []
    annotations: list[Annotation] = []
    async for event in generation:
        if isinstance(event, Finished):
            finished = event
        else:
            text.append(event.text)
            annotations += event.annotations
    return renderer.answer("".join(text), annotations, finished)
