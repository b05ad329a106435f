"""The replicas that the configuration lists."""

from __future__ import annotations

import asyncio

from router.discovery.base import Pools
from router.registry import Registry


class StaticDiscovery:
    """Writes them once."""

    def __init__(self, registry: Registry, pools: Pools) -> None:
        self.synced = asyncio.Event()
        self._registry = registry
        self._pools = pools

    async def run(self) -> None:
        for pool, addresses in self._pools.items():
            self._registry.replace(pool, addresses)
        self.synced.set()
        await asyncio.Event().wait()
