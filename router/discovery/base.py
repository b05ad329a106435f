"""What every discovery does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

Pools = Mapping[str, Sequence[str]]
"""Addresses, ``host:port``, by the name of their pool."""


class Discovery(Protocol):
    """Writes to the registry which replicas there are.

    ``synced`` is set once all of them have been written for the first time.
    """

    synced: asyncio.Event

    async def run(self) -> None:
        """Keep the registry up to date until cancelled."""


def join(host: str, port: str | int) -> str:
    """``host:port``, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
