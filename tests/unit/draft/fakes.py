"""A source that does as it is told, and the service around it on a real port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import grpc.aio

from common import codec, rpc
from common.draft_types import Block, Proposed, SessionAnswer, SessionUpdate
from common.model.runner import model_thread
from draft_service.engine import DraftEngine
from draft_service.publisher import Publisher
from draft_service.servicer import DraftServicer
from draft_service.session import Session
from draft_service.sources.base import Guess
from draft_service.vocabulary import Vocabulary
from protos.tandem.v1 import draft_pb2, draft_pb2_grpc, types_pb2

PATIENCE_SECONDS = 5
VOCABULARY = Vocabulary("ours", 64, context_length=128)

Propose = Callable[[Sequence[Session]], list[Guess | None]]


def as_many_as_wanted(sessions: Sequence[Session]) -> list[Guess | None]:
    """Counts on from the last token."""
    return [
        Guess(tuple((session.tokens[-1] + 1 + i) % VOCABULARY.size for i in range(session.block_size)))
        for session in sessions
    ]


class ScriptedSource:
    """Answers with ``script``, after ``gate`` is open.

    Attributes:
        rounds: the session ids of each call.
        closed: the sessions it was told to forget.
    """

    name = "scripted"
    model_version = "v7"

    def __init__(self, script: Propose = as_many_as_wanted) -> None:
        self.script = script
        self.rounds: list[list[str]] = []
        self.closed: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self._entered = threading.Semaphore(0)

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        self.rounds.append([session.session_id for session in sessions])
        self._entered.release()
        assert self.gate.wait(PATIENCE_SECONDS)
        return self.script(sessions)

    def close(self, session_id: str) -> None:
        self.closed.append(session_id)

    async def entered(self) -> None:
        """Returns when a round that was not waited for before has begun."""
        assert await asyncio.to_thread(self._entered.acquire, timeout=PATIENCE_SECONDS)


class Letters:
    """Decodes every token to one letter."""

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(ord("a") + token_id % 26) for token_id in token_ids)


class RecordingPublisher(Publisher):
    def __init__(self) -> None:
        super().__init__("", Letters())
        self.published: list[tuple[str, Block]] = []

    def publish(self, session: Session, block: Block) -> None:
        self.published.append((session.session_id, block))


@asynccontextmanager
async def drafting(
    source: ScriptedSource, max_sessions: int = 8, publisher: Publisher | None = None
) -> AsyncIterator[DraftEngine]:
    """An engine at work."""
    publisher = publisher or Publisher("", Letters())
    engine = DraftEngine(source, VOCABULARY, publisher, model_thread(), max_sessions=max_sessions)
    work = asyncio.create_task(engine.run())
    try:
        yield engine
    finally:
        source.gate.set()
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


@dataclass
class Service:
    engine: DraftEngine
    servicer: DraftServicer
    server: rpc.Server

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    async def status(self) -> draft_pb2.DraftStatus:
        async with rpc.channel(self.address) as channel:
            stub: draft_pb2_grpc.DraftServiceAsyncStub = draft_pb2_grpc.DraftServiceStub(channel)
            return await stub.Status(types_pb2.StatusRequest(), timeout=PATIENCE_SECONDS)

    async def holds(self, sessions: int) -> None:
        """Returns when exactly that many sessions are open."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.engine.num_sessions != sessions:
                await asyncio.sleep(0.005)


@asynccontextmanager
async def serving(source: ScriptedSource, max_sessions: int = 8) -> AsyncIterator[Service]:
    async with drafting(source, max_sessions) as engine:
        status = draft_pb2.DraftStatus(source=source.name, fingerprint=VOCABULARY.fingerprint)
        servicer = DraftServicer(engine, status)
        server = rpc.Server("127.0.0.1:0")
        draft_pb2_grpc.add_DraftServiceServicer_to_server(servicer, server.grpc)
        await server.start()
        try:
            yield Service(engine, servicer, server)
        finally:
            source.gate.set()
            await server.drain(0)


class Replica:
    """A verify replica's end of one draft stream."""

    def __init__(
        self, call: grpc.aio.StreamStreamCall[draft_pb2.ProposeRequest, draft_pb2.ProposeResponse]
    ) -> None:
        self.call = call

    async def send(self, *updates: SessionUpdate) -> None:
        """All in one message."""
        await self.send_raw(*(codec.update_to_proto(update) for update in updates))

    async def send_raw(self, *updates: draft_pb2.SessionUpdate) -> None:
        await self.call.write(draft_pb2.ProposeRequest(updates=updates))

    async def message(self) -> list[SessionAnswer]:
        """The answers of the next message; none when the stream has ended well."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            read = await self.call.read()
        if not isinstance(read, draft_pb2.ProposeResponse):  # the end of the stream
            return []
        return [codec.answer_from_proto(answer) for answer in read.answers]

    async def answer(self) -> SessionAnswer:
        """The only answer of the next message."""
        (answer,) = await self.message()
        return answer

    async def block(self) -> Block:
        answer = await self.answer()
        assert isinstance(answer, Proposed)
        return answer.block


@asynccontextmanager
async def connected(service: Service) -> AsyncIterator[Replica]:
    async with rpc.channel(service.address) as channel:
        stub: draft_pb2_grpc.DraftServiceAsyncStub = draft_pb2_grpc.DraftServiceStub(channel)
        call = stub.Propose()
        yield Replica(call)
        call.cancel()
