"""RouterService at the edge: messages to dataclasses and back."""

from __future__ import annotations

import grpc.aio

from common import rpc
from common.codec import plan_to_proto, route_from_proto
from protos.tandem.v1 import router_pb2, types_pb2
from protos.tandem.v1.router_pb2_grpc import RouterServiceServicer
from router.registry import Endpoint, Registry
from router.router import Router

Context = grpc.aio.ServicerContext[object, object]


class RouterServicer(RouterServiceServicer):
    def __init__(self, router: Router, registry: Registry) -> None:
        self._router = router
        self._registry = registry

    async def Route(  # noqa: N802
        self, request: router_pb2.RouteRequest, context: Context
    ) -> router_pb2.RouteResponse:
        async with rpc.aborting(context):
            plan = self._router.route(route_from_proto(request))
        return plan_to_proto(plan)

    async def Status(  # noqa: N802
        self, request: types_pb2.StatusRequest, context: Context
    ) -> router_pb2.RouterStatus:
        verify = [_status(endpoint) for endpoint in self._registry.verify()]
        drafts = [_status(endpoint) for endpoint in self._registry.drafts()]
        ready = any(status.ready for status in verify)
        return router_pb2.RouterStatus(ready=ready, verify=verify, drafts=drafts)


def _status(endpoint: Endpoint) -> router_pb2.EndpointStatus:
    return router_pb2.EndpointStatus(
        pool=endpoint.pool,
        address=endpoint.address,
        ready=endpoint.available,
        load=endpoint.load,
        breaker=endpoint.breaker.state.value,
    )
