"""One answer under way: begun once the verify service has taken the request, ended with its stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace

from common.errors import Internal
from common.types import Delta, Finished, GenerateEvent, GenerateRequest, Plan, Started
from gateway.metrics import TokenClock
from gateway.planner import Planner
from gateway.translate import to_route
from gateway.verify_client import VerifyClient


class Generation:
    """The plan, how the answer started, and its events still to come."""

    def __init__(
        self, plan: Plan, started: Started, events: AsyncGenerator[GenerateEvent, None], clock: TokenClock
    ) -> None:
        self.plan = plan
        self.started = started
        self._events = events
        self._clock = clock

    async def __aiter__(self) -> AsyncIterator[Delta | Finished]:
        """Deltas, then one Finished; returns only once the call itself has ended well.

        Raises:
            TandemError: what the verify service raised; Internal when its events are out of order.
        """
        finished = False
        async for event in self._events:
            if finished or isinstance(event, Started):
                raise Internal("the verify service sent its events out of order")
            if isinstance(event, Delta) and event.token_ids:
                self._clock.tick()
            finished = isinstance(event, Finished)
            yield event
        if not finished:
            raise Internal("the answer ended before it was finished")

    async def aclose(self) -> None:
        """Cancel the call if it still runs."""
        await self._events.aclose()


async def begin(planner: Planner, verify: VerifyClient, request: GenerateRequest, model: str) -> Generation:
    """Route the request and wait until the verify service has accepted it.

    Raises:
        TandemError: whatever kept it from starting; nothing has been sent to the client yet.
    """
    clock = TokenClock()
    plan = await planner.plan(to_route(request, model))
    events = verify.generate(plan.verify_address, replace(request, drafts=plan.drafts))
    first = await anext(events, None)
    if not isinstance(first, Started):
        await events.aclose()
        raise Internal("the verify service answered without starting")
    return Generation(plan, first, events, clock)
