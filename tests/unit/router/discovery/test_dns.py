from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from router.discovery.base import Pools
from router.discovery.dns import DnsDiscovery, resolve
from router.registry import Registry
from tests.unit.router.fakes import eventually, registry


class FakeDns:
    """Answers from ``records``; a name that is not there cannot be resolved, one in ``hanging`` never is."""

    def __init__(self, **records: Sequence[str]) -> None:
        self.records = dict(records)
        self.hanging: set[str] = set()
        self.asked: list[tuple[str, int]] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        if host in self.hanging:
            await asyncio.Event().wait()
        if host not in self.records:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.records[host]


@asynccontextmanager
async def following(dns: FakeDns, pools: Pools, timeout_seconds: float = 30.0) -> AsyncIterator[Registry]:
    """A registry that is kept up to date, once it is."""
    known = registry()
    discovery = DnsDiscovery(known, pools, 0.001, resolve=dns.resolve, timeout_seconds=timeout_seconds)
    running = asyncio.create_task(discovery.run())
    try:
        await asyncio.wait_for(discovery.synced.wait(), 30)
        yield known
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def addresses(known: Registry, pool: str) -> list[str]:
    return [endpoint.address for endpoint in known.pool(pool)]


async def until(holds: Callable[[], bool]) -> None:
    async def check() -> bool:
        return holds()

    await eventually(check)


async def rounds(dns: FakeDns, count: int = 2) -> None:
    """Returns once every name was asked for so often again."""
    names = {host for host, _ in dns.asked}
    dns.asked.clear()
    await until(lambda: all([host for host, _ in dns.asked].count(name) >= count for name in names))


async def test_a_name_stands_for_all_of_its_addresses_of_both_families() -> None:
    dns = FakeDns(verify=["10.0.0.2", "10.0.0.1", "10.0.0.1"], drafts=["fd00::1"])
    async with following(dns, {"verify": ["verify:50052"], "ngram": ["drafts:50053"]}) as known:
        assert addresses(known, "verify") == ["10.0.0.1:50052", "10.0.0.2:50052"]
        assert addresses(known, "ngram") == ["[fd00::1]:50053"]
    assert ("verify", 50052) in dns.asked


async def test_several_names_make_one_pool() -> None:
    dns = FakeDns(a=["10.0.0.1"], b=["10.0.0.2"])
    async with following(dns, {"ngram": ["a:1", "b:2"]}) as known:
        assert addresses(known, "ngram") == ["10.0.0.1:1", "10.0.0.2:2"]


async def test_replicas_that_come_and_go_are_followed() -> None:
    dns = FakeDns(drafts=["10.0.0.1", "10.0.0.2"])
    async with following(dns, {"ngram": ["drafts:1"]}) as known:
        dns.records["drafts"] = ["10.0.0.2", "10.0.0.3"]
        await until(lambda: addresses(known, "ngram") == ["10.0.0.2:1", "10.0.0.3:1"])


async def test_a_name_that_cannot_be_resolved_any_more_keeps_its_addresses() -> None:
    dns = FakeDns(a=["10.0.0.1"], b=["10.0.0.2"])
    async with following(dns, {"ngram": ["a:1", "b:1"]}) as known:
        del dns.records["a"]
        dns.records["b"] = ["10.0.0.3"]
        await rounds(dns)
        assert addresses(known, "ngram") == ["10.0.0.1:1", "10.0.0.3:1"]
        dns.records["a"] = ["10.0.0.4"]
        await until(lambda: addresses(known, "ngram") == ["10.0.0.4:1", "10.0.0.3:1"])


async def test_a_name_that_never_could_be_resolved_holds_up_nobody() -> None:
    async with following(FakeDns(a=["10.0.0.1"]), {"verify": ["gone:1"], "ngram": ["a:1"]}) as known:
        assert addresses(known, "verify") == []
        assert addresses(known, "ngram") == ["10.0.0.1:1"]


async def test_a_resolver_that_hangs_is_given_up_on_and_the_addresses_stay() -> None:
    dns = FakeDns(a=["10.0.0.1"], b=["10.0.0.2"])
    async with following(dns, {"ngram": ["a:1", "b:1"]}, timeout_seconds=0.01) as known:
        dns.hanging.add("a")
        dns.records["b"] = ["10.0.0.3"]
        await rounds(dns)
        assert addresses(known, "ngram") == ["10.0.0.1:1", "10.0.0.3:1"]


async def test_the_operating_system_resolves_names_and_addresses() -> None:
    assert set(await resolve("localhost", 50053)) <= {"127.0.0.1", "::1"}
    assert await resolve("10.0.0.1", 50053) == ["10.0.0.1"]
    assert await resolve("fd00::1", 50053) == ["fd00::1"]


@pytest.mark.parametrize("name", ["x" * 64 + ":1", "a..b:1"])
async def test_a_name_that_is_none_cannot_be_resolved(name: str) -> None:
    discovery = DnsDiscovery(registry(), {"ngram": [name]}, 60)
    running = asyncio.create_task(discovery.run())
    await asyncio.wait_for(discovery.synced.wait(), 30)
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
