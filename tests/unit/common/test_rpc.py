"""Errors, health and drain over a real gRPC connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NoReturn

import grpc
import grpc.aio
import pytest

from common import rpc
from common.errors import Cancelled, Internal, InvalidRequest, TandemError, TimedOut, Unavailable
from tests.unit.common.test_errors import KINDS

METHOD = "/tandem.test/Call"
Context = grpc.aio.ServicerContext[object, object]
Behaviour = Callable[[], Awaitable[bytes]]


class Service(grpc.GenericRpcHandler):
    """Answers ``METHOD`` with whatever ``behaviour`` returns or raises, as servicers do."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        known = handler_call_details.method == METHOD
        return grpc.unary_unary_rpc_method_handler(self._call) if known else None

    async def _call(self, request: bytes, context: Context) -> bytes:
        async with rpc.aborting(context):
            return await self._behaviour()
        raise AssertionError("aborting lets nothing through")


@asynccontextmanager
async def serving(behaviour: Behaviour) -> AsyncIterator[tuple[rpc.Server, str]]:
    server = rpc.Server("127.0.0.1:0")
    server.grpc.add_generic_rpc_handlers((Service(behaviour),))
    await server.start()
    try:
        yield server, f"127.0.0.1:{server.port}"
    finally:
        await server.drain(0)


async def call(address: str, timeout_seconds: float = 10) -> bytes:
    async with rpc.channel(address) as channel:
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        return await method(b"", timeout=timeout_seconds)


async def test_a_client_that_pings_while_nothing_else_is_said_is_not_cut_off() -> None:
    """Unless told otherwise gRPC takes that for abuse, and ends the connection with every stream on it."""
    options = [("grpc.keepalive_time_ms", 1000), ("grpc.http2.max_pings_without_data", 0)]

    async def silent() -> bytes:
        await asyncio.sleep(5.5)
        return b"still there"

    async with (
        serving(silent) as (_, address),
        grpc.aio.insecure_channel(address, options=options) as channel,
    ):
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        assert await method(b"", timeout=30) == b"still there"


async def failure(error: BaseException, timeout_seconds: float = 10) -> TandemError:
    """What a client makes of a servicer that raises ``error``."""

    async def fail() -> NoReturn:
        raise error

    async with serving(fail) as (_, address):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(address, timeout_seconds)
    return rpc.to_error(caught.value)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_error_of_ours_arrives_with_its_kind_message_and_field(kind: type[TandemError]) -> None:
    error = await failure(kind("why: ünïcode", field="sampling.top_p"))
    assert type(error) is kind
    assert (error.code, error.message, error.field) == (kind.code, "why: ünïcode", "sampling.top_p")


async def test_an_error_without_a_field_arrives_without_one() -> None:
    assert (await failure(InvalidRequest("why"))).field is None


async def test_an_error_without_a_message_is_named_by_its_status() -> None:
    assert (await failure(InvalidRequest(""))).message == "INVALID_ARGUMENT"


@pytest.mark.parametrize("message", ["two\nlines", "a" * 3000])
async def test_a_message_of_several_lines_or_pages_arrives_whole(message: str) -> None:
    error = await failure(InvalidRequest(message, field="prompt"))
    assert (error.message, error.field) == (message, "prompt")


async def test_an_unexpected_exception_is_an_internal_error_that_does_not_tell_its_message() -> None:
    error = await failure(ValueError("secret"))
    assert type(error) is Internal
    assert "ValueError" in error.message
    assert "secret" not in error.message


async def test_a_deadline_that_passes_is_a_timeout() -> None:
    forever = asyncio.Event()

    async def hang() -> bytes:
        await forever.wait()
        return b""

    async with serving(hang) as (_, address):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(address, timeout_seconds=0.1)
    assert type(rpc.to_error(caught.value)) is TimedOut


async def test_a_client_that_leaves_cancels_the_servicer() -> None:
    entered, left = asyncio.Event(), asyncio.Event()

    async def hang() -> bytes:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return b""

    async with serving(hang) as (_, address):
        leaving = asyncio.create_task(call(address))
        await asyncio.wait_for(entered.wait(), 10)
        leaving.cancel()
        await asyncio.wait_for(left.wait(), 10)


async def test_a_peer_that_is_not_there_is_unavailable() -> None:
    async with serving(_answer) as (_, address):
        pass
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(address)
    assert type(rpc.to_error(caught.value)) is Unavailable


async def test_an_answer_passes_through_untouched() -> None:
    async with serving(_answer) as (_, address):
        assert await call(address) == b"answer"


async def test_a_server_is_healthy_only_between_ready_and_drained() -> None:
    async with serving(_answer) as (server, address):
        assert not await rpc.healthy(address)
        await server.set_ready(True)
        assert await rpc.healthy(address)
        await server.set_ready(False)
        assert not await rpc.healthy(address)
        await server.set_ready(True)
        await server.drain(0)
        assert not await rpc.healthy(address)


async def test_draining_lets_a_running_call_finish_and_reports_unready_meanwhile() -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> bytes:
        entered.set()
        await go_on.wait()
        return b"finished"

    async with serving(wait) as (server, address):
        await server.set_ready(True)
        running = asyncio.create_task(call(address))
        await asyncio.wait_for(entered.wait(), 10)
        draining = asyncio.create_task(server.drain(10))
        while await rpc.healthy(address):
            await asyncio.sleep(0.01)
        go_on.set()
        assert await running == b"finished"
        await draining


async def test_draining_ends_a_call_that_outlasts_the_grace() -> None:
    entered = asyncio.Event()

    async def hang() -> bytes:
        entered.set()
        await asyncio.Event().wait()
        return b""

    async with serving(hang) as (server, address):
        running = asyncio.create_task(call(address))
        await asyncio.wait_for(entered.wait(), 10)
        await server.drain(0.05)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running
    assert type(rpc.to_error(caught.value)) in {Cancelled, Unavailable}


async def _answer() -> bytes:
    return b"answer"
