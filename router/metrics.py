"""What the router measures."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from router.autopilot.actions import Kind
from router.breaker import Reason, State
from router.classifier import PROMPT_CLASSES
from router.registry import Endpoint, Registry

_BREAKER_VALUES = {State.CLOSED: 0, State.HALF_OPEN: 1, State.OPEN: 2}
_DECISION_BUCKETS = (25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 100e-3)


class Metrics:
    def __init__(self, endpoints: Registry, registry: CollectorRegistry) -> None:
        self.routes = Counter(
            "tandem_router_routes", "Plans made, by prompt class.", ["prompt_class"], registry=registry
        )
        for prompt_class in PROMPT_CLASSES:
            self.routes.labels(prompt_class)
        self.decision_seconds = Histogram(
            "tandem_router_decision_seconds",
            "Time from a request to its plan.",
            buckets=_DECISION_BUCKETS,
            registry=registry,
        )
        registry.register(_EndpointCollector(endpoints))
        self.actions = Counter(
            "tandem_autopilot_actions", "What the autopilot of this router did.", ["kind"], registry=registry
        )
        for kind in Kind:
            self.actions.labels(kind.value)


class _EndpointCollector(Collector):
    """Reads the endpoints when scraped, so that a breaker's state is that of the moment."""

    def __init__(self, endpoints: Registry) -> None:
        self._endpoints = endpoints

    def collect(self) -> Iterator[Metric]:
        yield self._gauge(
            "tandem_router_endpoint_ready",
            "1 when the endpoint may be planned.",
            lambda endpoint: int(endpoint.available),
        )
        yield self._gauge(
            "tandem_router_breaker_state",
            "0 closed, 1 half open, 2 open.",
            lambda endpoint: _BREAKER_VALUES[endpoint.breaker.state],
        )
        yield self._ejections()
        yield self._ejected_shares()

    def _gauge(self, name: str, text: str, value: Callable[[Endpoint], int]) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(name, text, labels=["pool", "address"])
        for endpoint in self._endpoints:
            gauge.add_metric([endpoint.pool, endpoint.address], value(endpoint))
        return gauge

    def _ejections(self) -> CounterMetricFamily:
        counter = CounterMetricFamily(
            "tandem_router_breaker_ejections", "Breakers that opened, by reason.", labels=["reason"]
        )
        for reason in Reason:
            counter.add_metric([reason.value], self._endpoints.ejections[reason])
        return counter

    def _ejected_shares(self) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(
            "tandem_router_pool_ejected_share",
            "Of a pool's endpoints that answer, the share kept out for slow answers or bad blocks.",
            labels=["pool"],
        )
        for pool in self._endpoints.pools():
            gauge.add_metric([pool.name], pool.ejected_share)
        return gauge
