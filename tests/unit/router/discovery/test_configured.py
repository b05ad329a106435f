"""Which discovery is at work, and what it loads."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from router.config import RouterConfig
from router.discovery.configured import open_discovery
from tests.unit.router.fakes import registry


async def addresses(config: RouterConfig) -> dict[str, list[str]]:
    """What the configured discovery finds, by pool."""
    known = registry()
    async with open_discovery(config, known) as discovery:
        running = asyncio.create_task(discovery.run())
        await asyncio.wait_for(discovery.synced.wait(), 30)
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return {pool.name: list(pool.endpoints) for pool in known.pools()}


async def test_static_addresses_are_taken_as_they_stand() -> None:
    config = RouterConfig(verify=("verify.test:1",), drafts={"ngram": ("10.0.0.1:1",), "model": ()})
    assert await addresses(config) == {"verify": ["verify.test:1"], "ngram": ["10.0.0.1:1"], "model": []}


async def test_names_are_resolved_by_dns() -> None:
    config = RouterConfig(discovery="dns", verify=("10.0.0.1:1", "[::1]:2"), drafts={"model": ()})
    assert await addresses(config) == {"verify": ["10.0.0.1:1", "[::1]:2"], "model": []}


def test_a_router_without_kubernetes_does_not_load_its_client() -> None:
    code = (
        "import sys, router.server; sys.exit(any(name in sys.modules for name in ('kubernetes', 'aiohttp')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
