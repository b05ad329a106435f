"""The edge: protobuf in, protobuf out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from common import codec, rpc
from common.errors import TandemError
from draft_service.engine import DraftEngine, Stream
from protos.tandem.v1 import draft_pb2, draft_pb2_grpc, types_pb2

_Context = Any  # grpc.aio.ServicerContext, whose type parameters differ per method


class DraftServicer(draft_pb2_grpc.DraftServiceServicer):
    def __init__(self, engine: DraftEngine, status: draft_pb2.DraftStatus) -> None:
        """``status``: what does not change while the service runs."""
        self._engine = engine
        self._status = status
        self.ready = False

    async def Propose(  # noqa: N802
        self, request_iterator: AsyncIterator[draft_pb2.ProposeRequest], context: _Context
    ) -> AsyncIterator[draft_pb2.ProposeResponse]:
        stream = self._engine.connect()
        async with rpc.aborting(context):
            reader = asyncio.create_task(self._read(request_iterator, stream))
            try:
                async for answers in stream:
                    yield draft_pb2.ProposeResponse(answers=[codec.answer_to_proto(a) for a in answers])
                if reader.done() and (error := reader.exception()):
                    raise error
            finally:
                reader.cancel()
                await self._engine.release(stream)

    async def _read(self, request_iterator: AsyncIterator[draft_pb2.ProposeRequest], stream: Stream) -> None:
        """Until the peer has no more to say, or says something malformed, which ends the stream."""
        try:
            async for request in request_iterator:
                updates = [codec.update_from_proto(update) for update in request.updates]
                await self._engine.take(stream, updates)
        except TandemError:
            stream.end()
            raise
        stream.end()

    async def Status(  # noqa: N802
        self, request: types_pb2.StatusRequest, context: _Context
    ) -> draft_pb2.DraftStatus:
        status = draft_pb2.DraftStatus()
        status.CopyFrom(self._status)
        status.model_version = self._engine.model_version
        status.ready = self.ready
        status.sessions = self._engine.num_sessions
        return status
