"""What EndpointSlices say: which addresses are in which pool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from common import logging
from router.discovery.base import join

PORT_NAME = "grpc"
_FAMILIES = ("IPv4", "IPv6")
"""What can be called, preferred first: a replica that has both is one replica."""

Slice = Mapping[str, Any]
"""An EndpointSlice of ``discovery.k8s.io/v1`` as JSON."""

log = logging.get("router.discovery.slices")


def pools(slices: Iterable[Slice], pool_label: str) -> dict[str, tuple[str, ...]]:
    """The addresses of every pool that a slice names, without replicas that take no new requests.

    A pool is united from all of its slices, and is empty where none of their replicas can be used.
    """
    replicas: dict[str, dict[str, str]] = {}
    for piece in sorted(slices, key=_preference):
        pool = (piece["metadata"].get("labels") or {}).get(pool_label)
        if pool and piece.get("addressType") in _FAMILIES:
            for identity, address in _replicas(piece):
                replicas.setdefault(pool, {}).setdefault(identity, address)
            replicas.setdefault(pool, {})
    return {pool: tuple(sorted(set(found.values()))) for pool, found in sorted(replicas.items())}


def _preference(piece: Slice) -> tuple[bool, str]:
    return piece.get("addressType") != _FAMILIES[0], piece["metadata"]["name"]


def _replicas(piece: Slice) -> Iterator[tuple[str, str]]:
    """What a usable replica is known by, which is the same in each of its slices, and its address."""
    port = _port(piece)
    if port is None:
        log.warning("a slice has no port of ours", slice=piece["metadata"]["name"], wanted=PORT_NAME)
        return
    for endpoint in piece.get("endpoints") or ():
        if _usable(endpoint.get("conditions") or {}):
            address = join(endpoint["addresses"][0], port)  # all of them are of the same replica
            pod = (endpoint.get("targetRef") or {}).get("uid")
            yield f"{pod}:{port}" if pod else address, address


def _port(piece: Slice) -> int | None:
    """The port of our name, else the only one."""
    ports: Sequence[Mapping[str, Any]] = piece.get("ports") or ()
    named = [port for port in ports if port.get("name") == PORT_NAME]
    candidates = named or ports
    return candidates[0].get("port") if len(candidates) == 1 else None


def _usable(conditions: Mapping[str, bool | None]) -> bool:
    """Unknown readiness counts as ready. A terminating replica may be ready where a service publishes all."""
    return conditions.get("ready") is not False and not conditions.get("terminating")
