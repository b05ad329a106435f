"""Which addresses may be spoken to: public ones, unless private ones are allowed."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, as text."""

_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")


async def resolve(host: str, port: int) -> Sequence[str]:
    """Raises OSError for a name without address."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def public(written: str) -> bool:
    """Whether anybody on the internet may be meant: no private, local, unspecified or multicast address."""
    address = _carried(ipaddress.ip_address(written))
    return address.is_global and not address.is_multicast and not address.is_reserved


def _carried(address: Address) -> Address:
    """The v4 address that a v6 one leads to, if it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
