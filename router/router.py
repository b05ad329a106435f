"""A request in, a plan out: classify, choose, count."""

from __future__ import annotations

from common import logging
from common.types import Plan, RouteRequest
from router.classifier import Classifier
from router.metrics import Metrics
from router.policy import Planner

log = logging.get("router")


class Router:
    def __init__(self, classify: Classifier, planner: Planner, metrics: Metrics) -> None:
        self._classify = classify
        self._planner = planner
        self._metrics = metrics

    def route(self, request: RouteRequest) -> Plan:
        """Who serves the request. All replicas serve one model, so its name does not matter here.

        Raises:
            Unavailable: when no verify replica is ready.
        """
        with self._metrics.decision_seconds.time():
            classified = self._classify(request.head, request.prompt_characters)
            plan = self._planner.plan(request, classified.weights)
        self._metrics.routes.labels(plan.prompt_class).inc()
        log.debug("planned", request_id=request.request_id, reason=plan.reason)
        return plan
