"""One long-lived stream to one draft replica."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Protocol

import grpc
import grpc.aio

from common import codec, logging, rpc
from common.draft_types import SessionAnswer, SessionUpdate
from common.errors import InvalidRequest
from protos.tandem.v1 import draft_pb2, draft_pb2_grpc
from verify_service.drafts.breaker import WaitBreaker

_CONNECT_SECONDS = 2.0
_LONGEST_BACKOFF_SECONDS = 2.0
_MOST_UNSENT_UPDATES = 4096

log = logging.get("draft_link")

OnAnswers = Callable[[Sequence[SessionAnswer]], None]
OnLost = Callable[[], None]
_Call = grpc.aio.StreamStreamCall[draft_pb2.ProposeRequest, draft_pb2.ProposeResponse]


class Link(Protocol):
    """What the hub needs of a stream; the tests' scripted draft is another."""

    breaker: WaitBreaker

    @property
    def up(self) -> bool: ...
    def send(self, update: SessionUpdate) -> None: ...
    def start(self, on_answers: OnAnswers, on_lost: OnLost) -> None: ...
    async def close(self) -> None: ...


class DraftLink:
    """Connects, reconnects with back-off, and sends what a step has gathered as one message."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.breaker = WaitBreaker()
        self._unsent: list[SessionUpdate] = []
        self._wake = asyncio.Event()
        self._overflow = asyncio.Event()
        self._up = False
        self._task: asyncio.Task[None] | None = None

    @property
    def up(self) -> bool:
        return self._up

    def start(self, on_answers: OnAnswers, on_lost: OnLost) -> None:
        """Begin to connect; answers and the loss of all sessions are told through the callbacks."""
        self._task = asyncio.create_task(self._run(on_answers, on_lost), name=f"draft-link-{self.address}")

    def send(self, update: SessionUpdate) -> None:
        """Queue an update for the next message; on a stream that is down it is lost, as its sessions are."""
        if not self._up:
            return
        self._unsent.append(update)
        self._wake.set()
        if len(self._unsent) > _MOST_UNSENT_UPDATES:
            self._overflow.set()

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, on_answers: OnAnswers, on_lost: OnLost) -> None:
        backoff = 0.1
        while True:
            try:
                async with rpc.channel(self.address) as channel:
                    await asyncio.wait_for(channel.channel_ready(), _CONNECT_SECONDS)
                    backoff = 0.1
                    await self._exchange(draft_pb2_grpc.DraftServiceStub(channel), on_answers)
            except (grpc.aio.AioRpcError, TimeoutError, InvalidRequest, OverflowError) as error:
                log.warning("draft stream lost", address=self.address, error=_describe(error))
            finally:
                self._up = False
                self._unsent.clear()
                on_lost()
            await asyncio.sleep(backoff * random.uniform(0.5, 1))
            backoff = min(2 * backoff, _LONGEST_BACKOFF_SECONDS)

    async def _exchange(self, stub: draft_pb2_grpc.DraftServiceAsyncStub, on_answers: OnAnswers) -> None:
        """Read and write until one of them ends, or a peer that takes nothing has filled the queue."""
        call = stub.Propose()
        self._overflow.clear()
        self._up = True
        tasks = [
            asyncio.create_task(self._read(call, on_answers)),
            asyncio.create_task(self._write(call)),
            asyncio.create_task(self._fail_on_overflow()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            call.cancel()

    async def _read(self, call: _Call, on_answers: OnAnswers) -> None:
        while True:
            response = await call.read()
            if not isinstance(response, draft_pb2.ProposeResponse):  # the end of the stream
                return
            on_answers([codec.answer_from_proto(answer) for answer in response.answers])

    async def _write(self, call: _Call) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            updates, self._unsent = self._unsent, []
            message = draft_pb2.ProposeRequest(updates=[codec.update_to_proto(update) for update in updates])
            try:
                await call.write(message)
            except asyncio.InvalidStateError:
                return  # the stream has just ended; the reader learns why

    async def _fail_on_overflow(self) -> None:
        await self._overflow.wait()
        raise OverflowError(f"{_MOST_UNSENT_UPDATES} updates unsent")


def _describe(error: Exception) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return f"{type(error).__name__}: {error}"
