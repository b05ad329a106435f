"""The router's configuration, from ``TANDEM_ROUTER_*``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Annotated, Literal, NoReturn

from pydantic import Field

from common.config import LogLevel, Port, RedisUrl
from common.errors import ConfigError
from router.classifier import PROMPT_CLASSES
from router.registry import VERIFY_POOL

Share = Annotated[float, Field(ge=0, le=0.5)]
Seconds = Annotated[float, Field(gt=0, le=3600)]

_USED_BY = {
    "dns_seconds": "dns",
    "kubernetes_namespace": "kubernetes",
    "kubernetes_pool_label": "kubernetes",
    "kubernetes_selector": "kubernetes",
    "kubernetes_config": "kubernetes",
}
"""The settings that only one discovery uses."""


@dataclass(frozen=True, slots=True)
class RouterConfig:
    """``verify``, ``drafts`` and ``classes`` are written as JSON.

    Args:
        discovery: where replicas are learned from: ``verify`` and ``drafts`` as they stand, the addresses
            that their host names stand for, or the EndpointSlices of a Kubernetes namespace.
        verify: the verify replicas, ``["host:port", ...]``; none where Kubernetes knows them.
        drafts: draft pools and their replicas, ``{"ngram": ["host:port", ...], ...}``; where Kubernetes knows
            the replicas, only pools, ``{"ngram": []}``, for their order.
        classes: prompt classes and their pools in order of preference, ``{"code": ["ngram"], ...}``; a
            class that is not named uses all pools in the order of ``drafts``, one with an empty list none.
        dns_seconds: how often host names are resolved.
        kubernetes_namespace: where empty, the one that the router runs in.
        kubernetes_pool_label: the label of an EndpointSlice that names its pool.
        kubernetes_selector: what else its labels must satisfy.
        kubernetes_config: a kubeconfig file; where empty, the cluster that the router runs in.
        metrics_port: 0 turns metrics off.
        admin_port: of the admin API; 0: none.
        redis_url: where feedback comes from and what was decided is kept; empty: nothing is learned, there
            are no switches and no autopilot.
        explore: most of a class's answers that may go to other pools than the best known.
        most_over_mean: load, in mean loads, up to which a verify replica gets the prompts that prefer it.
        autopilot: whether drafts that do not pay may be set to rest.
        plain_share: share of answers that nobody drafts, to see what drafts are worth.
        watched_share: share of a class's answers that show in shadow whether a resting draft would pay again.

    Raises:
        ConfigError: for an address that is not host:port or is given twice, an unknown class or pool, or what
            the discovery does not use.
    """

    discovery: Literal["static", "dns", "kubernetes"] = "static"
    verify: tuple[str, ...] = ()
    drafts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    classes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    dns_seconds: Seconds = 2.0
    kubernetes_namespace: str = ""
    kubernetes_pool_label: Annotated[str, Field(min_length=1)] = "tandem.io/pool"
    kubernetes_selector: str = ""
    kubernetes_config: str = ""
    host: str = "127.0.0.1"
    port: Port = 50051
    metrics_port: Port = 9101
    poll_seconds: Seconds = 1.0
    poll_timeout_seconds: Seconds = 1.0
    breaker_failures: Annotated[int, Field(ge=1)] = 3
    breaker_slow_seconds: Seconds = 0.5
    breaker_window: Annotated[int, Field(ge=1, le=1000)] = 10
    breaker_open_seconds: Seconds = 2.0
    breaker_max_open_seconds: Seconds = 4.0
    breaker_max_ejected: Annotated[float, Field(ge=0, le=1)] = 0.5
    max_drafts_per_plan: Annotated[int, Field(ge=1, le=8)] = 2
    admin_port: Port = 9105
    redis_url: RedisUrl = ""
    explore: Share = 0.15
    most_over_mean: Annotated[float, Field(ge=1, le=100)] = 1.25
    autopilot: bool = True
    plain_share: Share = 0.02
    watched_share: Share = 0.1
    drain_seconds: Annotated[float, Field(ge=0, le=3600)] = 5.0
    log_level: LogLevel = "info"

    def __post_init__(self) -> None:
        self._check_discovery()
        self._check_addresses()
        self._check_pools()
        self._check_classes()
        if self.breaker_max_open_seconds < self.breaker_open_seconds:
            _refuse("breaker_max_open_seconds", "must not be below TANDEM_ROUTER_BREAKER_OPEN_SECONDS")

    def _check_discovery(self) -> None:
        defaults = {each.name: each.default for each in fields(self)}
        for name, discovery in _USED_BY.items():
            if discovery != self.discovery and getattr(self, name) != defaults[name]:
                _refuse(name, f"only the discovery {discovery} uses it")
        if self.discovery != "kubernetes" and not self.verify:
            _refuse("verify", "at least 1 replica must be named")
        if self.discovery == "kubernetes":
            for name, _ in self._addresses():
                _refuse(name, "the discovery kubernetes finds the addresses itself")

    def _check_addresses(self) -> None:
        seen: set[str] = set()
        for name, address in self._addresses():
            if not _is_address(address):
                _refuse(name, f"{address!r} is not host:port")
            if address in seen:
                _refuse(name, f"{address} is given twice")
            seen.add(address)

    def _addresses(self) -> Iterator[tuple[str, str]]:
        """Every address with the field that gives it."""
        yield from (("verify", address) for address in self.verify)
        for addresses in self.drafts.values():
            yield from (("drafts", address) for address in addresses)

    def _check_pools(self) -> None:
        for pool in self.drafts:
            if pool in ("", VERIFY_POOL):
                _refuse("drafts", f"{pool!r} cannot be the name of a draft pool")

    def _check_classes(self) -> None:
        for prompt_class, pools in self.classes.items():
            if prompt_class not in PROMPT_CLASSES:
                _refuse("classes", f"unknown class {prompt_class!r}; known are {_listed(PROMPT_CLASSES)}")
            for pool in pools:
                if pool not in self.drafts and self.discovery != "kubernetes":
                    _refuse("classes", f"{prompt_class} names the unknown pool {pool!r}")
            if len(set(pools)) < len(pools):
                _refuse("classes", f"{prompt_class} names a pool twice")


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    bare_ipv6 = ":" in host and not (host.startswith("[") and host.endswith("]"))
    in_range = port.isascii() and port.isdigit() and 0 < int(port) < 65536
    return bool(host) and not bare_ipv6 and in_range and not any(map(str.isspace, text))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _refuse(field_name: str, rule: str) -> NoReturn:
    variable = f"TANDEM_ROUTER_{field_name.upper()}"
    raise ConfigError(f"{variable}: {rule}", field=variable)
