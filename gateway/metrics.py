"""What the gateway counts and times. Labels come only from the app's own routes and from status codes."""

from __future__ import annotations

import time

from prometheus_client import Counter, Gauge, Histogram

_LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

REQUESTS = Counter("tandem_gateway_requests", "HTTP requests by route and status.", ["route", "status"])
INFLIGHT = Gauge("tandem_gateway_inflight", "Answers being generated.")
TIME_TO_FIRST_TOKEN = Histogram(
    "tandem_time_to_first_token_seconds", "From the request to its first token.", buckets=_LATENCY_BUCKETS
)
INTER_TOKEN_LATENCY = Histogram(
    "tandem_inter_token_latency_seconds", "Between two deliveries of tokens.", buckets=_LATENCY_BUCKETS
)


class TokenClock:
    """Times the deliveries of one answer, from the moment it is made."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._histogram = TIME_TO_FIRST_TOKEN

    def tick(self) -> None:
        """Tokens arrived."""
        now = time.monotonic()
        self._histogram.observe(now - self._last)
        self._last, self._histogram = now, INTER_TOKEN_LATENCY
