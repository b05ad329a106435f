"""The addresses that host names stand for, such as those of headless services, asked for again and again."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import chain

from common import logging
from router.discovery.base import Pools, join
from router.registry import Registry

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The IPv4 and IPv6 addresses of a host name, with the port that is wanted there; raises OSError."""

log = logging.get("router.discovery.dns")


async def resolve(host: str, port: int) -> Sequence[str]:
    """As the operating system resolves: /etc/hosts, search domains, A and AAAA records."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class DnsDiscovery:
    """Resolves every name at once, each ``interval_seconds``.

    A name that cannot be resolved keeps the addresses that it had; so does one for which that takes longer
    than ``timeout_seconds``.
    """

    def __init__(
        self,
        registry: Registry,
        pools: Pools,
        interval_seconds: float,
        *,
        resolve: Resolve = resolve,
        timeout_seconds: float = 5.0,
    ) -> None:
        self.synced = asyncio.Event()
        self._registry = registry
        self._pools = pools
        self._interval_seconds = interval_seconds
        self._resolve = resolve
        self._timeout_seconds = timeout_seconds
        self._last_known: dict[str, tuple[str, ...]] = {}
        self._failing: set[str] = set()

    async def run(self) -> None:
        while True:
            await asyncio.gather(*(self._refresh(pool, names) for pool, names in self._pools.items()))
            self.synced.set()
            await asyncio.sleep(self._interval_seconds)

    async def _refresh(self, pool: str, names: Iterable[str]) -> None:
        resolved = await asyncio.gather(*map(self._addresses, names))
        self._registry.replace(pool, chain.from_iterable(resolved))

    async def _addresses(self, name: str) -> Sequence[str]:
        """What ``host:port`` stands for now, or did when it could last be resolved."""
        host, _, port = name.rpartition(":")
        try:
            async with asyncio.timeout(self._timeout_seconds):
                found = await self._resolve(host.strip("[]"), int(port))
        except (OSError, UnicodeError) as error:  # a TimeoutError is an OSError
            self._log_failure(name, error)
        else:
            self._failing.discard(name)
            self._last_known[name] = tuple(sorted({join(address, port) for address in found}))
        return self._last_known.get(name, ())

    def _log_failure(self, name: str, error: Exception) -> None:
        if name not in self._failing:
            self._failing.add(name)
            log.warning(
                "a name cannot be resolved, its last addresses stay in use", name=name, error=str(error)
            )
