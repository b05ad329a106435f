"""Asks endpoints for their status."""

from __future__ import annotations

from typing import Protocol

import grpc.aio

from common import rpc
from protos.tandem.v1 import draft_pb2, types_pb2, verify_pb2
from protos.tandem.v1.draft_pb2_grpc import DraftServiceStub
from protos.tandem.v1.verify_pb2_grpc import VerifyServiceStub
from router.registry import VERIFY_POOL, Endpoint, Report


class StatusClient(Protocol):
    async def status(self, endpoint: Endpoint) -> Report:
        """What the endpoint says of itself, within a bounded time.

        Raises:
            TandemError: when it does not answer, or answers with an error.
        """

    async def forget(self, address: str) -> None:
        """Let go of what is kept for an address that is not asked any more."""


class GrpcStatusClient:
    """Keeps one channel per address until that is forgotten."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._channels: dict[str, grpc.aio.Channel] = {}

    def __len__(self) -> int:
        return len(self._channels)

    async def status(self, endpoint: Endpoint) -> Report:
        channel = self._channel(endpoint.address)
        ask = self._verify_status if endpoint.pool == VERIFY_POOL else self._draft_status
        try:
            return await ask(channel)
        except grpc.aio.AioRpcError as error:
            raise rpc.to_error(error) from error

    async def forget(self, address: str) -> None:
        if channel := self._channels.pop(address, None):
            await channel.close(grace=2 * self._timeout_seconds)  # a call under way ends before

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()

    def _channel(self, address: str) -> grpc.aio.Channel:
        if address not in self._channels:
            self._channels[address] = rpc.channel(address)
        return self._channels[address]

    async def _verify_status(self, channel: grpc.aio.Channel) -> Report:
        stub = VerifyServiceStub(channel)
        return _verify_report(await stub.Status(types_pb2.StatusRequest(), timeout=self._timeout_seconds))

    async def _draft_status(self, channel: grpc.aio.Channel) -> Report:
        stub = DraftServiceStub(channel)
        return _draft_report(await stub.Status(types_pb2.StatusRequest(), timeout=self._timeout_seconds))


def _verify_report(wire: verify_pb2.VerifyStatus) -> Report:
    return Report(wire.ready, wire.running + wire.waiting, wire.max_running, wire.fingerprint)


def _draft_report(wire: draft_pb2.DraftStatus) -> Report:
    return Report(wire.ready, wire.sessions, wire.max_sessions, wire.fingerprint)
