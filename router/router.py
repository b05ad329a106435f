"""A request in, a plan out: classify, choose, count."""

from __future__ import annotations

from common.types import Plan, RouteRequest
from router.classifier import Classifier
from router.metrics import Metrics
from router.policy import LeastLoaded


class Router:
    def __init__(self, classify: Classifier, policy: LeastLoaded, metrics: Metrics) -> None:
        self._classify = classify
        self._policy = policy
        self._metrics = metrics

    def route(self, request: RouteRequest) -> Plan:
        """Who serves the request. All replicas serve one model, so its name does not matter here.

        Raises:
            Unavailable: when no verify replica is ready.
        """
        with self._metrics.decision_seconds.time():
            prompt_class = self._classify(request.head, request.prompt_characters).prompt_class
            plan = self._policy.choose(prompt_class, speculation_disabled=request.speculation_disabled)
        self._metrics.routes.labels(prompt_class).inc()
        return plan
