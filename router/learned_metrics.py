"""What the router has learned and what is in force, as metrics read when they are scraped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from common.switches import State
from router.classifier import PROMPT_CLASSES
from router.learning.bandit import Bandit
from router.pilot import Pilot

_MOST_SERIES = 512
_STATES = {State.ON: 0, State.SHADOW: 1, State.OFF: 2}


class LearnedCollector(Collector):
    """Classes are a fixed set; of pools at most so many are shown that the series stay bounded."""

    def __init__(self, bandit: Bandit, pilot: Pilot | None) -> None:
        self._bandit = bandit
        self._pilot = pilot

    def collect(self) -> Iterator[Metric]:
        yield _by_pair(
            "tandem_router_tokens_per_second",
            "Tokens per second of verify time with a pool, as learned.",
            self._bandit.values(),
        )
        changes = CounterMetricFamily(
            "tandem_router_changes",
            "Times a class's pools were found to have changed.",
            labels=["prompt_class"],
        )
        for prompt_class, count in self._bandit.changes().items():
            if prompt_class in PROMPT_CLASSES:
                changes.add_metric([prompt_class], count)
        yield changes
        if self._pilot:
            yield from self._in_force(self._pilot)

    def _in_force(self, pilot: Pilot) -> Iterator[Metric]:
        steering, pairs = pilot.steering, pilot.autopilot.pairs
        switched = GaugeMetricFamily(
            "tandem_switch_state", "The manual switch: 0 on, 1 shadow, 2 off.", labels=["prompt_class"]
        )
        for prompt_class in PROMPT_CLASSES:
            switched.add_metric([prompt_class], _STATES[steering.state(prompt_class)])
        yield switched
        yield GaugeMetricFamily("tandem_autopilot_leads", "1 where this router decides.", pilot.leads)
        yield _by_pair(
            "tandem_autopilot_resting",
            "1 where a class does without a pool.",
            {key: float(key in steering.resting) for key in pairs},
        )
        yield _by_pair(
            "tandem_autopilot_largest_block", "Limit of guesses in a block.", steering.largest_block
        )
        acceptance = {key: pair.window.acceptance for key, pair in pairs.items()}
        yield _by_pair(
            "tandem_autopilot_acceptance",
            "Share of guesses that were right, over the last answers.",
            {key: value for key, value in acceptance.items() if value is not None},
        )


def _by_pair(name: str, text: str, values: Mapping[tuple[str, str], float]) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, text, labels=["prompt_class", "pool"])
    known = [(key, value) for key, value in sorted(values.items()) if key[0] in PROMPT_CLASSES]
    for (prompt_class, pool), value in known[:_MOST_SERIES]:
        gauge.add_metric([prompt_class, pool], value)
    return gauge
