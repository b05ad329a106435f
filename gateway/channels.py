"""gRPC from the client's side: channels kept per address, and what a peer's failure means to our client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import grpc.aio

from common import logging, rpc
from common.errors import Cancelled, TandemError, Unavailable

log = logging.get("gateway.channels")


@dataclass(slots=True)
class _Pooled:
    channel: grpc.aio.Channel
    calls: int = 0


class ChannelPool:
    """At most ``capacity`` channels, and beyond that only those with a call on them."""

    def __init__(self, capacity: int = 64) -> None:
        self._capacity = capacity
        self._pooled: dict[str, _Pooled] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._pooled)

    @asynccontextmanager
    async def use(self, address: str) -> AsyncIterator[grpc.aio.Channel]:
        """The channel to ``address``, kept open for as long as the context."""
        pooled = self._pooled.pop(address, None) or _Pooled(rpc.channel(address))
        self._pooled[address] = pooled
        pooled.calls += 1
        try:
            await self._evict()
            yield pooled.channel
        finally:
            pooled.calls -= 1

    async def _evict(self) -> None:
        excess = max(0, len(self._pooled) - self._capacity)
        idle = [address for address, pooled in self._pooled.items() if not pooled.calls]
        for evicted in [self._pooled.pop(address) for address in idle[:excess]]:
            await evicted.channel.close()

    async def close(self) -> None:
        while self._pooled:
            _, pooled = self._pooled.popitem()
            await pooled.channel.close()


@contextmanager
def peer_errors(peer: str) -> Iterator[None]:
    """Raise what ``peer`` raised as ours.

    A call that the peer cancelled is no sign that the client left. What the transport says about an
    unreachable peer holds addresses, which are for the log.
    """
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise _for_client(peer, rpc.to_error(error)) from error


def _for_client(peer: str, error: TandemError) -> TandemError:
    match error:
        case Unavailable():
            log.warning("peer unavailable", peer=peer, detail=error.message)
            return Unavailable(f"the {peer} is unavailable")
        case Cancelled():
            return Unavailable(f"the {peer} ended the call")
        case _:
            return error
