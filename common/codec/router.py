"""Route: a request one way, a plan the other."""

from __future__ import annotations

from common.codec.shared import endpoints_from_proto, endpoints_to_proto
from common.types import Plan, RouteRequest
from protos.tandem.v1 import router_pb2


def route_to_proto(request: RouteRequest) -> router_pb2.RouteRequest:
    return router_pb2.RouteRequest(
        request_id=request.request_id,
        model=request.model,
        head=request.head,
        prompt_characters=request.prompt_characters,
        speculation_disabled=request.speculation_disabled,
        prefix_key=request.prefix_key,
        avoid=request.avoid,
    )


def route_from_proto(wire: router_pb2.RouteRequest) -> RouteRequest:
    return RouteRequest(
        wire.request_id,
        wire.model,
        wire.head,
        wire.prompt_characters,
        wire.speculation_disabled,
        wire.prefix_key,
        tuple(wire.avoid),
    )


def plan_to_proto(plan: Plan) -> router_pb2.RouteResponse:
    return router_pb2.RouteResponse(
        prompt_class=plan.prompt_class,
        verify_address=plan.verify_address,
        drafts=endpoints_to_proto(plan.drafts),
        reason=plan.reason,
        largest_block=plan.largest_block,
        shadow=plan.shadow,
    )


def plan_from_proto(wire: router_pb2.RouteResponse) -> Plan:
    return Plan(
        wire.prompt_class,
        wire.verify_address,
        endpoints_from_proto(wire.drafts),
        wire.reason,
        wire.largest_block,
        wire.shadow,
    )
