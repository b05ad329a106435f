"""Keeps the registry's reports fresh and its breakers fed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from common import logging
from common.errors import TandemError
from router.breaker import Outcome
from router.clients import StatusClient
from router.registry import Endpoint, Registry

log = logging.get("router.poller")


class Poller:
    """Polls a new endpoint at once, and every endpoint each ``interval_seconds``.

    One that is slow only misses its own turns.
    """

    def __init__(
        self,
        registry: Registry,
        client: StatusClient,
        interval_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._client = client
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._in_flight: set[Endpoint] = set()

    async def poll_all(self) -> None:
        """One round, ended when the slowest endpoint has answered or timed out."""
        await asyncio.gather(*map(self._poll, self._registry))

    async def run(self) -> None:
        """Poll until cancelled."""
        async with asyncio.TaskGroup() as polls:
            polls.create_task(self._follow_changes(polls))
            while True:
                await asyncio.sleep(self._interval_seconds)
                for endpoint in self._registry:
                    polls.create_task(self._poll(endpoint))

    async def _follow_changes(self, polls: asyncio.TaskGroup) -> None:
        """Poll what joins a pool; part with what leaves the last one it was in."""
        while True:
            change = await self._registry.changes.get()
            for endpoint in change.added:
                polls.create_task(self._poll(endpoint))
            gone = {endpoint.address for endpoint in change.removed}
            for address in gone:
                if self._registry.find(address) is None:
                    polls.create_task(self._client.forget(address))

    async def _poll(self, endpoint: Endpoint) -> None:
        if endpoint in self._in_flight or not endpoint.breaker.allow():
            return
        self._in_flight.add(endpoint)
        was_available = endpoint.available
        try:
            await self._refresh(endpoint)
        finally:
            self._in_flight.discard(endpoint)
        if endpoint.available != was_available:
            self._registry.review(endpoint.pool)
            _log_change(endpoint)

    async def _refresh(self, endpoint: Endpoint) -> None:
        # A plan made while the poll is on its way may be missing from the answer, so it stays counted.
        planned_before, began = endpoint.planned, self._clock()
        try:
            report = await self._client.status(endpoint)
        except TandemError as error:
            endpoint.breaker.record(Outcome.FAILED)
            log.debug("poll failed", pool=endpoint.pool, address=endpoint.address, error=error.message)
        else:
            endpoint.refresh(report, included=planned_before)
            endpoint.breaker.answered(self._clock() - began)


def _log_change(endpoint: Endpoint) -> None:
    log.info(
        "endpoint is available" if endpoint.available else "endpoint is not available",
        pool=endpoint.pool,
        address=endpoint.address,
        breaker=endpoint.breaker.state.value,
    )
