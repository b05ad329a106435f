"""Kubernetes: the EndpointSlices of the pools, listed once and then watched."""

from __future__ import annotations

import asyncio
import time
from asyncio import sleep
from collections.abc import Mapping, Sequence
from contextlib import aclosing

from common import logging
from router.discovery.backoff import Backoff
from router.discovery.cluster import AWAY, MALFORMED, Cluster, Event, Refused
from router.discovery.slices import Slice, pools
from router.registry import Registry

WATCH_SECONDS = 30
_SHORTEST_WATCH_SECONDS = 0.5
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 4.0
_TRY_AGAIN = frozenset({429, 502, 503})
"""Refusals that say nothing about the version asked for."""

log = logging.get("router.discovery.kubernetes")


class KubernetesDiscovery:
    """Follows the slices from the version last seen. While that fails, what was last known stays in use.

    Args:
        label: the label of a slice that names its pool.
        first_pools: those that come before others, in this order, also while they have no replicas.
        watch_seconds: how long one watch lasts, and about when a dead connection is noticed.
    """

    def __init__(
        self,
        registry: Registry,
        cluster: Cluster,
        label: str,
        first_pools: Sequence[str] = (),
        *,
        watch_seconds: int = WATCH_SECONDS,
    ) -> None:
        self.synced = asyncio.Event()
        self._registry = registry
        self._cluster = cluster
        self._label = label
        self._watch_seconds = watch_seconds
        self._backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        self._slices: dict[str, Slice] = {}
        self._version = ""
        self._written: dict[str, tuple[str, ...]] = {}
        self._write(dict.fromkeys(first_pools, ()))

    async def run(self) -> None:
        while True:
            try:
                await self._follow()
            except (Refused, *AWAY, *MALFORMED) as error:
                self._forget_version_after(error)
                seconds = self._backoff.next_seconds()
                log.warning(
                    "the watch broke, what was last known stays in use",
                    error=repr(error),
                    resumes_from=self._version or "a new list",
                    pause_seconds=round(seconds, 3),
                )
                await sleep(seconds)

    async def _follow(self) -> None:
        """List if there is no version to go on from, then watch once."""
        if not self._version:
            await self._list()
        began = time.monotonic()
        await self._watch()
        if time.monotonic() - began < _SHORTEST_WATCH_SECONDS:
            raise ConnectionError("the watch ended as soon as it had begun")
        self._backoff.reset()

    async def _list(self) -> None:
        listed, self._version = await self._cluster.list()
        self._slices = {piece["metadata"]["name"]: piece for piece in listed}
        self._publish()
        self.synced.set()

    async def _watch(self) -> None:
        async with aclosing(self._cluster.watch(self._version, self._watch_seconds)) as events:
            async for event in events:
                self._take(event)
                self._backoff.reset()

    def _take(self, event: Event) -> None:
        name = event.slice["metadata"].get("name", "")
        match event.kind:
            case "ADDED" | "MODIFIED":
                self._slices[name] = event.slice
            case "DELETED":
                self._slices.pop(name, None)
        self._version = event.version
        self._publish()

    def _forget_version_after(self, error: Exception) -> None:
        """The version is too old, or unknown to a server that was set back; only a list helps then."""
        busy = isinstance(error, Refused) and error.code in _TRY_AGAIN
        if not busy and not isinstance(error, AWAY):
            self._version = ""

    def _publish(self) -> None:
        self._write(pools(self._slices.values(), self._label))

    def _write(self, found: Mapping[str, tuple[str, ...]]) -> None:
        """Write the pools that changed; one that no slice names any more is empty."""
        now = dict.fromkeys(self._written, ()) | dict(found)
        for pool, addresses in now.items():
            if addresses != self._written.get(pool):
                self._registry.replace(pool, addresses)
                log.info("pool changed", pool=pool, replicas=len(addresses))
        self._written = now
