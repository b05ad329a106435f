"""Discovery at work, and waiting for what it brings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from router.config import RouterConfig
from router.discovery.configured import open_discovery
from router.registry import Registry
from tests.unit.router.fakes import eventually, registry


class Followed:
    """A registry that discovery keeps up to date."""

    def __init__(self) -> None:
        self.registry: Registry = registry()

    def addresses(self, pool: str) -> list[str]:
        return [endpoint.address for endpoint in self.registry.pool(pool)]

    async def until(self, pool: str, *addresses: str) -> None:
        """Returns when the pool has these addresses and no others."""
        await until(lambda: self.addresses(pool) == list(addresses))


@asynccontextmanager
async def following(config: RouterConfig, *, wait: bool = True) -> AsyncIterator[Followed]:
    """Discovery at work; from its first list on, unless told not to ``wait`` for that."""
    followed = Followed()
    async with open_discovery(config, followed.registry) as discovery:
        running = asyncio.create_task(discovery.run())
        try:
            if wait:
                await asyncio.wait_for(discovery.synced.wait(), 30)
            yield followed
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.wait([running], timeout=30)
            assert running.cancelled()


async def until(holds: Callable[[], bool]) -> None:
    async def check() -> bool:
        return holds()

    await eventually(check)
