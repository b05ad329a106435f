"""The real stream to a draft replica, over gRPC on this machine."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc.aio
import pytest

from common import codec
from common.draft_types import Block, Close, Commit, Open, Proposed, Refused, SessionAnswer, SessionUpdate
from common.types import Mode, SamplingParams
from protos.tandem.v1 import draft_pb2, draft_pb2_grpc, types_pb2
from tests.unit.verify.support import until
from verify_service.drafts.link import DraftLink

_Context = Any

Behaviour = Callable[
    ["Peer", AsyncIterator[draft_pb2.ProposeRequest]], AsyncIterator[draft_pb2.ProposeResponse]
]


class Peer(draft_pb2_grpc.DraftServiceServicer):
    """A draft replica's end of the stream, with a behaviour to be changed at any time."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.messages: list[list[SessionUpdate]] = []
        self.streams = 0
        self.ended = 0

    async def Propose(  # noqa: N802
        self, request_iterator: AsyncIterator[draft_pb2.ProposeRequest], context: _Context
    ) -> AsyncIterator[draft_pb2.ProposeResponse]:
        self.streams += 1
        try:
            async for response in self.behaviour(self, request_iterator):
                yield response
        finally:
            self.ended += 1

    async def Status(  # noqa: N802
        self, request: types_pb2.StatusRequest, context: _Context
    ) -> draft_pb2.DraftStatus:
        return draft_pb2.DraftStatus()

    def take(self, request: draft_pb2.ProposeRequest) -> list[SessionUpdate]:
        self.messages.append([codec.update_from_proto(update) for update in request.updates])
        return self.messages[-1]


def response(*answers: SessionAnswer) -> draft_pb2.ProposeResponse:
    return draft_pb2.ProposeResponse(answers=[codec.answer_to_proto(answer) for answer in answers])


async def echo(
    peer: Peer, requests: AsyncIterator[draft_pb2.ProposeRequest]
) -> AsyncIterator[draft_pb2.ProposeResponse]:
    """One answer for every open and commit, all of a message in one message."""
    async for request in requests:
        updates = [update for update in peer.take(request) if not isinstance(update, Close)]
        yield response(*(Proposed(update.session_id, Block(1, 3, (4,))) for update in updates))


async def deaf(
    peer: Peer, requests: AsyncIterator[draft_pb2.ProposeRequest]
) -> AsyncIterator[draft_pb2.ProposeResponse]:
    await asyncio.Event().wait()
    yield response()


async def malformed(
    peer: Peer, requests: AsyncIterator[draft_pb2.ProposeRequest]
) -> AsyncIterator[draft_pb2.ProposeResponse]:
    async for request in requests:
        peer.take(request)
        yield draft_pb2.ProposeResponse(answers=[draft_pb2.SessionAnswer(session_id="s")])


async def ends(
    peer: Peer, requests: AsyncIterator[draft_pb2.ProposeRequest]
) -> AsyncIterator[draft_pb2.ProposeResponse]:
    """Hangs up after the first message."""
    async for request in requests:
        peer.take(request)
        yield response()
        return


async def fails(
    peer: Peer, requests: AsyncIterator[draft_pb2.ProposeRequest]
) -> AsyncIterator[draft_pb2.ProposeResponse]:
    async for request in requests:
        peer.take(request)
        raise RuntimeError("the scripted peer was told to fail")
    yield response()


@asynccontextmanager
async def served(peer: Peer, port: int = 0) -> AsyncGenerator[int, None]:
    server = grpc.aio.server()
    draft_pb2_grpc.add_DraftServiceServicer_to_server(peer, server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield bound
    finally:
        await server.stop(0)


class Heard:
    """What a link told the hub."""

    def __init__(self) -> None:
        self.answers: list[SessionAnswer] = []
        self.batches = 0
        self.lost = 0

    def on_answers(self, answers: Sequence[SessionAnswer]) -> None:
        self.answers += answers
        self.batches += 1

    def on_lost(self) -> None:
        self.lost += 1


@asynccontextmanager
async def linked(port: int) -> AsyncGenerator[tuple[DraftLink, Heard], None]:
    link, heard = DraftLink(f"127.0.0.1:{port}"), Heard()
    link.start(heard.on_answers, heard.on_lost)
    try:
        yield link, heard
    finally:
        await link.close()


def opening(session_id: str, tokens: Sequence[int] = (1, 2, 3)) -> Open:
    return Open(session_id, "f", 10, list(tokens), 1, SamplingParams(), Mode.KEYED, 2**64 - 1, 4, 8)


def commit(session_id: str = "s") -> Commit:
    return Commit(session_id, 3, 1, (0,), (7,), 4)


async def test_a_link_connects_and_carries_updates_there_and_answers_back() -> None:
    peer = Peer(echo)
    async with served(peer) as port, linked(port) as (link, heard):
        assert not link.up
        await until(lambda: link.up)
        link.send(opening("s"))
        await until(lambda: bool(heard.answers))
        assert peer.messages == [[opening("s")]]
        assert heard.answers == [Proposed("s", Block(1, 3, (4,)))]


async def test_what_one_step_sends_travels_as_one_message() -> None:
    peer = Peer(echo)
    async with served(peer) as port, linked(port) as (link, heard):
        await until(lambda: link.up)
        for index in range(100):
            link.send(opening(str(index)))
            link.send(commit(str(index)))
            link.send(Close(str(index)))
        await until(lambda: len(heard.answers) == 200)
        assert [len(message) for message in peer.messages] == [300]
        assert heard.batches == 1


async def test_what_is_sent_while_the_stream_is_down_is_lost_as_its_sessions_are() -> None:
    peer = Peer(echo)
    async with served(peer) as port, linked(port) as (link, heard):
        link.send(opening("early"))
        await until(lambda: link.up)
        link.send(opening("s"))
        await until(lambda: bool(heard.answers))
        assert [update.session_id for message in peer.messages for update in message] == ["s"]


async def test_a_link_to_nobody_stays_down_and_connects_when_somebody_listens_there() -> None:
    async with served(Peer(echo)) as port:
        pass
    async with linked(port) as (link, heard):
        await asyncio.sleep(0.05)
        assert not link.up
        async with served(Peer(echo), port):
            await until(lambda: link.up, seconds=10)
            assert heard.answers == []


async def test_a_link_reconnects_after_its_peer_restarts_on_the_same_port() -> None:
    first = Peer(echo)
    async with served(first) as port:
        link, heard = DraftLink(f"127.0.0.1:{port}"), Heard()
        link.start(heard.on_answers, heard.on_lost)
        await until(lambda: link.up)
        link.send(opening("s"))
        await until(lambda: bool(heard.answers))
    await until(lambda: not link.up)
    assert heard.lost >= 1
    second = Peer(echo)
    async with served(second, port):
        await until(lambda: link.up, seconds=10)
        link.send(opening("again"))
        await until(lambda: len(heard.answers) == 2)
        await link.close()
    assert [update.session_id for update in second.messages[0]] == ["again"]


@pytest.mark.parametrize("behaviour", [ends, malformed, fails])
async def test_a_peer_that_ends_the_stream_or_talks_nonsense_costs_its_stream_only(
    behaviour: Behaviour,
) -> None:
    peer = Peer(behaviour)
    async with served(peer) as port, linked(port) as (link, heard):
        await until(lambda: link.up)
        link.send(opening("s"))
        await until(lambda: heard.lost == 1)
        peer.behaviour = echo
        await until(lambda: link.up and peer.streams >= 2)
        link.send(opening("t"))
        await until(lambda: Proposed("t", Block(1, 3, (4,))) in heard.answers)
        assert not any(isinstance(answer, Proposed) and answer.session_id == "s" for answer in heard.answers)


async def test_a_stream_that_ends_while_updates_are_written_is_opened_again() -> None:
    peer = Peer(ends)

    async def lose(link: DraftLink, heard: Heard, times: int) -> None:
        for lost in range(1, times + 1):
            await until(lambda: link.up)
            while heard.lost < lost:
                link.send(commit())
                await asyncio.sleep(0.0003 * (lost % 2))

    async with served(peer) as port, AsyncExitStack() as stack:
        # The moment that matters is short, so many streams try to hit it.
        links = [await stack.enter_async_context(linked(port)) for _ in range(30)]
        await asyncio.gather(*(lose(link, heard, 5) for link, heard in links))
        peer.behaviour = echo
        async with asyncio.timeout(5):
            for link, heard in links:
                # The stream that is up may be the last one that will hang up.
                while Proposed("s", Block(1, 3, (4,))) not in heard.answers:
                    link.send(opening("s"))
                    await asyncio.sleep(0.01)


async def test_a_peer_that_never_reads_gets_a_new_stream_before_memory_grows_without_bound() -> None:
    peer = Peer(deaf)
    async with served(peer) as port, linked(port) as (link, heard):
        await until(lambda: link.up)
        big = opening("s", [9] * 2000)
        sent = 0
        async with asyncio.timeout(20):
            while not heard.lost:
                link.send(big)
                sent += 1
                if sent % 50 == 0:
                    await asyncio.sleep(0)
        assert sent < 12_000
        peer.behaviour = echo
        await until(lambda: link.up and peer.streams == 2, seconds=10)
        link.send(opening("t"))
        await until(lambda: bool(heard.answers))
        assert [update.session_id for message in peer.messages for update in message] == ["t"]
        await until(lambda: peer.ended >= 1)


async def test_a_refusal_crosses_the_wire() -> None:
    async def refuses(
        peer: Peer, requests: AsyncIterator[draft_pb2.ProposeRequest]
    ) -> AsyncIterator[draft_pb2.ProposeResponse]:
        async for _ in requests:
            yield response(Refused("s", "overloaded", "full"))

    async with served(Peer(refuses)) as port, linked(port) as (link, heard):
        await until(lambda: link.up)
        link.send(opening("s"))
        await until(lambda: heard.answers == [Refused("s", "overloaded", "full")])


@pytest.mark.parametrize("connected", [True, False])
async def test_close_ends_the_stream_and_leaves_no_task_behind(connected: bool) -> None:
    peer = Peer(echo)
    async with served(peer) as port:
        before = asyncio.all_tasks()
        link, heard = DraftLink(f"127.0.0.1:{port}"), Heard()
        link.start(heard.on_answers, heard.on_lost)
        if connected:
            await until(lambda: link.up)
            link.send(opening("s"))
            await until(lambda: bool(heard.answers))
        await link.close()
        assert not link.up
        if connected:
            await until(lambda: peer.ended == 1)
        await until(lambda: not (own_tasks() - before))
    gc.collect()


def own_tasks() -> set[asyncio.Task[Any]]:
    """Tasks of the service's own code; the gRPC server in this process has others."""
    return {task for task in asyncio.all_tasks() if "verify_service" in repr(task.get_coro())}


async def test_closing_a_link_that_was_never_started_is_no_error() -> None:
    await DraftLink("127.0.0.1:1").close()
