"""Answers under way: begun once the verify service has taken the request, ended with their streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace

from common import logging
from common.errors import Internal, Unavailable
from common.types import Delta, Finished, GenerateEvent, GenerateRequest, Plan, Started
from gateway.metrics import TokenClock
from gateway.planner import Planner
from gateway.translate import to_route
from gateway.verify_client import VerifyClient

_MOST_PLANS = 3

log = logging.get("gateway.generation")


class Generation:
    """How one answer started, and its events still to come."""

    def __init__(
        self, started: Started, events: AsyncGenerator[GenerateEvent, None], clock: TokenClock
    ) -> None:
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


class Choices:
    """The answers to one request, one per choice, side by side. The failure of one is that of all."""

    def __init__(self, plan: Plan, generations: Sequence[Generation]) -> None:
        self.plan = plan
        self.started = generations[0].started
        self._generations = generations
        self._awaited: dict[asyncio.Task[Delta | Finished | None], int] = {}

    def __len__(self) -> int:
        return len(self._generations)

    async def __aiter__(self) -> AsyncIterator[tuple[int, Delta | Finished]]:
        """Each event with the index of its choice, as they come; of no choice is more than one read ahead.

        Raises:
            TandemError: the first that any choice raised.
        """
        events = [aiter(generation) for generation in self._generations]
        for index in range(len(self)):
            self._await_next(events[index], index)
        while self._awaited:
            done, _ = await asyncio.wait(self._awaited, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                index = self._awaited.pop(task)
                event = task.result()
                if event is not None:
                    self._await_next(events[index], index)
                    yield index, event

    def _await_next(self, events: AsyncIterator[Delta | Finished], index: int) -> None:
        self._awaited[asyncio.create_task(_next(events))] = index

    async def aclose(self) -> None:
        """Cancel the calls that still run."""
        for task in self._awaited:
            task.cancel()
        await asyncio.gather(*self._awaited, return_exceptions=True)
        for generation in self._generations:
            await generation.aclose()


async def _next(events: AsyncIterator[Delta | Finished]) -> Delta | Finished | None:
    return await anext(events, None)


async def begin(
    planner: Planner, verify: VerifyClient, requests: Sequence[GenerateRequest], model: str
) -> Choices:
    """Route the request and wait until the verify service has accepted every choice of it.

    A replica that is not there, or drains, costs the request another plan without it.

    Args:
        requests: one per choice.

    Raises:
        TandemError: whatever kept one from starting; nothing has been sent to the client yet.
    """
    clocks = [TokenClock() for _ in requests]
    route, refusal = to_route(requests[0], model), Unavailable("")
    while len(route.avoid) < _MOST_PLANS:
        plan = await planner.plan(route)
        if plan.verify_address in route.avoid:  # there is no other
            break
        try:
            return Choices(plan, await _start_all(verify, plan, requests, clocks))
        except Unavailable as error:
            log.warning("a verify replica did not start", address=plan.verify_address, error=error.message)
            route, refusal = replace(route, avoid=(*route.avoid, plan.verify_address)), error
    raise refusal


async def _start_all(
    verify: VerifyClient, plan: Plan, requests: Sequence[GenerateRequest], clocks: Sequence[TokenClock]
) -> list[Generation]:
    """All of them or, where one does not start, none."""
    starting = [
        asyncio.create_task(_start(verify, plan, request, clock))
        for request, clock in zip(requests, clocks, strict=True)
    ]
    try:
        return await asyncio.gather(*starting)
    except BaseException:
        for task in starting:
            task.cancel()
        for begun in await asyncio.gather(*starting, return_exceptions=True):
            if isinstance(begun, Generation):
                await begun.aclose()
        raise


async def _start(verify: VerifyClient, plan: Plan, request: GenerateRequest, clock: TokenClock) -> Generation:
    events = verify.generate(plan.verify_address, replace(request, drafts=plan.drafts, terms=plan.terms))
    first = await anext(events, None)
    if not isinstance(first, Started):
        await events.aclose()
        raise Internal("the verify service answered without starting")
    return Generation(first, events, clock)
