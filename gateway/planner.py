"""Who serves a request: the router's plan, or the last one it gave while it is away."""

from __future__ import annotations

from dataclasses import replace

from common import logging
from common.errors import Internal, TimedOut, Unavailable
from common.types import Plan, RouteRequest
from gateway.router_client import RouterClient

UNCLASSIFIED = "unclassified"

log = logging.get("gateway.planner")


class Planner:
    """Asks the router once per request and remembers its last plan."""

    def __init__(self, router: RouterClient) -> None:
        self._router = router
        self._last: Plan | None = None

    async def plan(self, request: RouteRequest) -> Plan:
        """A plan whose drafts are empty when the request wants no speculation.

        Raises:
            Unavailable: without a router and without a plan from before.
            TandemError: what the router raised about the request itself.
        """
        try:
            plan = await self._router.route(request)
        except (Unavailable, TimedOut, Internal) as error:
            plan = self._fall_back(error)
        else:
            self._remember(plan)
        return replace(plan, drafts=()) if request.speculation_disabled else plan

    def _remember(self, plan: Plan) -> None:
        """Some plans name no drafts, or have them watched only; they must not displace one that uses them."""
        if self._last is None or (plan.drafts and not plan.shadow):
            self._last = plan

    def _fall_back(self, error: Unavailable | TimedOut | Internal) -> Plan:
        if self._last is None:
            raise Unavailable("the router is unavailable") from error
        log.warning("router away, using the last plan", error=error.code)
        return replace(self._last, prompt_class=UNCLASSIFIED, reason="router away; the last plan")
