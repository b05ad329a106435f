"""The router's life: listen, learn who there is, poll everything once, turn ready, poll on, drain."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from prometheus_client import REGISTRY, CollectorRegistry

from common import lifecycle, logging, rpc
from common.http_server import HttpServer
from protos.tandem.v1.router_pb2_grpc import add_RouterServiceServicer_to_server
from router.admin import create_app
from router.breaker import Breaker, Limits
from router.classifier import LinearClassifier
from router.clients import GrpcStatusClient
from router.config import RouterConfig
from router.discovery.base import Discovery
from router.discovery.configured import open_discovery
from router.drafting import Drafting
from router.learned_metrics import LearnedCollector
from router.metrics import Metrics
from router.mind import Mind
from router.policy import Planner
from router.poller import Poller
from router.registry import Registry
from router.router import Router
from router.servicer import RouterServicer
from router.watching import watch

log = logging.get("router")


async def serve(config: RouterConfig) -> None:
    """Run until SIGTERM or SIGINT."""
    lifecycle.serve_metrics(config.metrics_port)
    await RouterServer(config, REGISTRY).run(lifecycle.stop_event())


class RouterServer:
    """The whole service; made inside a running event loop. ``port`` is the one it listens on."""

    def __init__(self, config: RouterConfig, metrics: CollectorRegistry) -> None:
        self._config = config
        self._registry = registry = _registry(config)
        counted, rng = Metrics(registry, metrics), random.Random()
        self._mind = mind = Mind(config, counted, self._pools_of, lambda record: watch(registry, record))
        metrics.register(LearnedCollector(mind.bandit, mind.pilot))
        drafting = Drafting(
            self._pools_of,
            mind.bandit,
            steering=mind.steering,
            shares=mind.shares,
            needs_plain=mind.needs_plain,
            rng=rng,
        )
        planner = Planner(
            registry,
            drafting,
            max_drafts=config.max_drafts_per_plan,
            most_over_mean=config.most_over_mean,
            steering=mind.steering,
            rng=rng,
        )
        router = Router(LinearClassifier.load(), planner, counted)
        self._client = GrpcStatusClient(config.poll_timeout_seconds)
        self._poller = Poller(registry, self._client, config.poll_seconds)
        self._server = rpc.Server(f"{config.host}:{config.port}")
        self.port = self._server.port
        add_RouterServiceServicer_to_server(RouterServicer(router, registry), self._server.grpc)

    def _pools_of(self, prompt_class: str) -> Sequence[str]:
        """The pools configured for a class, or all that are known now, in their order."""
        return self._config.classes.get(prompt_class, self._registry.draft_pools())

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until ``stopping`` is set, then drain.

        Raises:
            ConfigError: when the discovery cannot be set up.
        """
        async with open_discovery(self._config, self._registry) as discovery:
            await self._server.start()
            try:
                await self._live_until(stopping, discovery)
            finally:
                await self._server.drain(self._config.drain_seconds)
                await self._mind.close()
                await self._client.close()

    async def _live_until(self, stopping: asyncio.Event, discovery: Discovery) -> None:
        # In a group, so that a router whose polls have failed for good stops instead of planning on
        # with what it last knew.
        async with asyncio.TaskGroup() as group:
            parts = (discovery.run(), self._poll(discovery), self._mind.run(), self._administer())
            tasks = [group.create_task(part) for part in parts]
            await stopping.wait()
            for task in tasks:
                task.cancel()

    async def _poll(self, discovery: Discovery) -> None:
        await discovery.synced.wait()
        await self._poller.poll_all()
        await self._mind.start()
        await self._server.set_ready(True)
        log.info("ready", port=self.port)
        await self._poller.run()

    async def _administer(self) -> None:
        """Serve the admin API, where there is something to administer, until cancelled."""
        if self._mind.pilot and self._config.admin_port:
            app = create_app(self._mind.pilot, self._mind.bandit)
            await HttpServer(app, self._config.host, self._config.admin_port).serve()


def _registry(config: RouterConfig) -> Registry:
    limits = Limits(
        failures=config.breaker_failures,
        slow_seconds=config.breaker_slow_seconds,
        window=config.breaker_window,
        open_seconds=config.breaker_open_seconds,
        max_open_seconds=config.breaker_max_open_seconds,
    )
    return Registry(lambda pool: Breaker(limits, pool), config.breaker_max_ejected)
