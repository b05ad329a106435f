"""The router as the gateway sees it."""

from __future__ import annotations

import grpc.aio

from common import rpc
from common.codec import plan_from_proto, route_to_proto
from common.errors import TandemError
from common.types import Plan, RouteRequest
from gateway.channels import peer_errors
from protos.tandem.v1 import router_pb2, types_pb2
from protos.tandem.v1.router_pb2_grpc import RouterServiceStub


class RouterClient:
    """One channel to one router. Made inside a running event loop."""

    def __init__(self, address: str, timeout_seconds: float) -> None:
        self._channel: grpc.aio.Channel = rpc.channel(address)
        self._stub = RouterServiceStub(self._channel)
        self._timeout = timeout_seconds

    async def route(self, request: RouteRequest) -> Plan:
        """Raises TandemError: what the router raised, Unavailable or TimedOut when it does not answer."""
        with peer_errors("router"):
            return plan_from_proto(await self._stub.Route(route_to_proto(request), timeout=self._timeout))

    async def ready(self) -> bool:
        """Whether the router is ready and knows a verify replica that is."""
        try:
            status = await self._status()
        except TandemError:
            return False
        return status.ready and any(replica.ready for replica in status.verify)

    async def _status(self) -> router_pb2.RouterStatus:
        with peer_errors("router"):
            return await self._stub.Status(types_pb2.StatusRequest(), timeout=self._timeout)

    async def close(self) -> None:
        await self._channel.close()
