"""The edge: protobuf in, protobuf out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from common import codec, rpc
from common.errors import Unavailable
from protos.tandem.v1 import types_pb2, verify_pb2, verify_pb2_grpc
from verify_service.admission import Admission
from verify_service.engine import Engine

_Context = Any  # grpc.aio.ServicerContext, whose type parameters differ per method


class VerifyServicer(verify_pb2_grpc.VerifyServiceServicer):
    def __init__(self, engine: Engine, admission: Admission, status: verify_pb2.VerifyStatus) -> None:
        """``status``: what does not change while the service runs."""
        self._engine = engine
        self._admission = admission
        self._status = status
        self.ready = False

    async def Generate(  # noqa: N802
        self, request: verify_pb2.GenerateRequest, context: _Context
    ) -> AsyncIterator[verify_pb2.GenerateResponse]:
        async with rpc.aborting(context):
            if not self.ready:
                raise Unavailable("starting or draining")
            async with aclosing(self._engine.generate(codec.generate_from_proto(request))) as events:
                async for event in events:
                    yield codec.event_to_proto(event)

    async def Tokenize(  # noqa: N802
        self, request: verify_pb2.TokenizeRequest, context: _Context
    ) -> verify_pb2.TokenizeResponse:
        async with rpc.aborting(context):
            token_ids = await self._admission.tokenize(codec.prompt_from_proto(request.prompt))
            return verify_pb2.TokenizeResponse(
                token_ids=token_ids, context_length=self._admission.context_length
            )

    async def Detokenize(  # noqa: N802
        self, request: verify_pb2.DetokenizeRequest, context: _Context
    ) -> verify_pb2.DetokenizeResponse:
        async with rpc.aborting(context):
            return verify_pb2.DetokenizeResponse(text=self._admission.detokenize(list(request.token_ids)))

    async def Status(  # noqa: N802
        self, request: types_pb2.StatusRequest, context: _Context
    ) -> verify_pb2.VerifyStatus:
        async with rpc.aborting(context):
            status = verify_pb2.VerifyStatus()
            status.CopyFrom(self._status)
            status.ready = self.ready
            status.running, status.waiting = self._engine.load
            status.kv_blocks_free = self._engine.kv_blocks_free
            return status
