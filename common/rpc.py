"""gRPC as all services use it: channels, errors across the wire, a server with health and drain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NoReturn

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from common import logging
from common.errors import Internal, TandemError, from_grpc

MAX_MESSAGE_BYTES = 16 << 20
_FIELD_KEY = "tandem-error-field"
_OPTIONS: Sequence[tuple[str, int]] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_ping_strikes", 0),  # pings on a connection without calls are no abuse here
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)

log = logging.get("rpc")


def channel(address: str) -> grpc.aio.Channel:
    """A plaintext channel to ``host:port`` that reconnects within two seconds."""
    return grpc.aio.insecure_channel(address, options=_OPTIONS)


async def abort(context: grpc.aio.ServicerContext[object, object], error: TandemError) -> NoReturn:
    """End the call with the status of ``error``; its field travels in the trailing metadata."""
    if error.field:
        context.set_trailing_metadata(((_FIELD_KEY, error.field),))
    await context.abort(error.grpc_status, error.message)


@asynccontextmanager
async def aborting(context: grpc.aio.ServicerContext[object, object]) -> AsyncIterator[None]:
    """Turn what a servicer raises into a status: ours as they are, anything else into INTERNAL, logged."""
    try:
        yield
    except TandemError as error:
        await abort(context, error)
    except (grpc.aio.AbortError, asyncio.CancelledError):
        raise
    except Exception as error:
        log.exception("unexpected error in a call")
        await abort(context, Internal(f"{type(error).__name__} in the service; its log has the details"))


def to_error(error: grpc.aio.AioRpcError) -> TandemError:
    """The error the peer raised, its field included."""
    trailing = {str(key): value for key, value in error.trailing_metadata() or ()}
    field = trailing.get(_FIELD_KEY)
    return from_grpc(error.code(), error.details() or error.code().name, str(field) if field else None)


class Server:
    """A gRPC server that answers ``grpc.health.v1`` and drains before it stops."""

    def __init__(self, address: str) -> None:
        self._server = grpc.aio.server(options=_OPTIONS)
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self.port = self._server.add_insecure_port(address)

    @property
    def grpc(self) -> grpc.aio.Server:
        """For ``add_…Servicer_to_server``."""
        return self._server

    async def start(self) -> None:
        """Listen, not ready yet."""
        await self._health.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
        await self._server.start()

    async def set_ready(self, ready: bool) -> None:
        status = health_pb2.HealthCheckResponse
        await self._health.set("", status.SERVING if ready else status.NOT_SERVING)

    async def drain(self, grace_seconds: float) -> None:
        """Turn unready, refuse new calls, wait for running ones up to the grace, then end them."""
        await self.set_ready(False)
        await self._server.stop(grace_seconds)


async def healthy(address: str, timeout_seconds: float = 1.0) -> bool:
    """Whether the service at ``address`` says it is ready."""
    async with channel(address) as probe:
        stub = health_pb2_grpc.HealthStub(probe)
        try:
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout_seconds)
        except grpc.aio.AioRpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
