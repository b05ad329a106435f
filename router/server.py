"""The router's life: listen, poll everything once, turn ready, poll on, drain."""

from __future__ import annotations

import asyncio
import random

from prometheus_client import REGISTRY, CollectorRegistry

from common import lifecycle, logging, rpc
from protos.tandem.v1.router_pb2_grpc import add_RouterServiceServicer_to_server
from router.breaker import Breaker
from router.classifier import LinearClassifier
from router.clients import GrpcStatusClient
from router.config import RouterConfig
from router.metrics import Metrics
from router.policy import LeastLoaded, configured_ranking
from router.poller import Poller
from router.registry import VERIFY_POOL, Registry
from router.router import Router
from router.servicer import RouterServicer

log = logging.get("router")


async def serve(config: RouterConfig) -> None:
    """Run until SIGTERM or SIGINT."""
    lifecycle.serve_metrics(config.metrics_port)
    await RouterServer(config, REGISTRY).run(lifecycle.stop_event())


class RouterServer:
    """The whole service; made inside a running event loop. ``port`` is the one it listens on."""

    def __init__(self, config: RouterConfig, metrics: CollectorRegistry) -> None:
        self._config = config
        registry = _registry(config)
        ranking = configured_ranking(config.classes, tuple(config.drafts))
        policy = LeastLoaded(registry, ranking, max_drafts=config.max_drafts_per_plan, rng=random.Random())
        router = Router(LinearClassifier.load(), policy, Metrics(registry, metrics))
        self._client = GrpcStatusClient(config.poll_timeout_seconds)
        self._poller = Poller(registry, self._client, config.poll_seconds)
        self._server = rpc.Server(f"{config.host}:{config.port}")
        self.port = self._server.port
        add_RouterServiceServicer_to_server(RouterServicer(router, registry), self._server.grpc)

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until ``stopping`` is set, then drain."""
        await self._server.start()
        try:
            await self._poller.poll_all()
            await self._server.set_ready(True)
            log.info("ready", port=self.port)
            await self._poll_until(stopping)
        finally:
            await self._server.drain(self._config.drain_seconds)
            await self._client.close()

    async def _poll_until(self, stopping: asyncio.Event) -> None:
        # In a group, so that a router whose polls have failed for good stops instead of planning on
        # with what it last knew.
        async with asyncio.TaskGroup() as group:
            polling = group.create_task(self._poller.run())
            await stopping.wait()
            polling.cancel()


def _registry(config: RouterConfig) -> Registry:
    registry = Registry(
        lambda: Breaker(
            failures=config.breaker_failures,
            open_seconds=config.breaker_open_seconds,
            max_open_seconds=config.breaker_max_open_seconds,
        )
    )
    registry.replace(VERIFY_POOL, config.verify)
    for pool, addresses in config.drafts.items():
        registry.replace(pool, addresses)
    return registry
