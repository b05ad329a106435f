"""The discovery that the configuration asks for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from router.config import RouterConfig
from router.discovery.base import Discovery
from router.discovery.dns import DnsDiscovery
from router.discovery.static import StaticDiscovery
from router.registry import VERIFY_POOL, Registry


@asynccontextmanager
async def open_discovery(config: RouterConfig, registry: Registry) -> AsyncIterator[Discovery]:
    """Ready to run; what it needs is closed with it.

    Raises:
        ConfigError: when there is no cluster to ask.
    """
    pools = {VERIFY_POOL: config.verify, **config.drafts}
    match config.discovery:
        case "static":
            yield StaticDiscovery(registry, pools)
        case "dns":
            yield DnsDiscovery(registry, pools, config.dns_seconds)
        case "kubernetes":
            async with _kubernetes(config, registry) as discovery:
                yield discovery


@asynccontextmanager
async def _kubernetes(config: RouterConfig, registry: Registry) -> AsyncIterator[Discovery]:
    # Loaded here, because the library is large and the others do without.
    from router.discovery.cluster import connect  # noqa: PLC0415
    from router.discovery.kubernetes import KubernetesDiscovery  # noqa: PLC0415

    label = config.kubernetes_pool_label
    selector = f"{label},{config.kubernetes_selector}".rstrip(",")
    async with connect(config.kubernetes_config, config.kubernetes_namespace, selector) as cluster:
        yield KubernetesDiscovery(registry, cluster, label, tuple(config.drafts))
