"""``python -m bench.router``: how long the router takes to classify a prompt, and to decide on a plan."""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry

from bench.markdown import table
from common.types import RouteRequest
from router.breaker import Breaker, Limits
from router.classifier import HEAD_CHARACTERS, PROMPT_CLASSES, LinearClassifier
from router.drafting import Drafting
from router.learning.bandit import Bandit
from router.metrics import Metrics
from router.policy import Planner
from router.registry import VERIFY_POOL, Registry, Report
from router.router import Router

_PROMPTS = Path(__file__).parents[1] / "tests/data/router/prompts.jsonl"
_WARM_UP = 3


def requests(path: Path) -> list[RouteRequest]:
    """One for each line of a file with ``prompt`` and, where the prompt is longer, ``characters``."""
    rows = map(json.loads, path.read_text("utf-8").splitlines())
    return [
        RouteRequest(
            "bench", "model", row["prompt"][:HEAD_CHARACTERS], row.get("characters", len(row["prompt"]))
        )
        for row in rows
    ]


def times(
    decide: Callable[[RouteRequest], object], asked: Sequence[RouteRequest], rounds: int
) -> list[float]:
    """Seconds of each decision, all requests in turn; the first rounds are not counted."""
    found = []
    for number in range(_WARM_UP + rounds):
        for request in asked:
            started = time.perf_counter()
            decide(request)
            if number >= _WARM_UP:
                found.append(time.perf_counter() - started)
    return found


def router(classifier: LinearClassifier) -> Router:
    """With three pools of two drafts, and two verify replicas, all ready."""
    limits = Limits(failures=3, slow_seconds=1, window=10, open_seconds=2, max_open_seconds=4)
    known = Registry(lambda pool: Breaker(limits, pool))
    known.replace(VERIFY_POOL, ["v:1", "v:2"])
    pools = ("ngram", "model", "eagle")
    for pool in pools:
        known.replace(pool, [f"{pool}:1", f"{pool}:2"])
    for endpoint in known:
        endpoint.report = Report(ready=True)
    rng, bandit = random.Random(0), Bandit()
    for prompt_class, pool in itertools.product(PROMPT_CLASSES, pools * 3):
        bandit.learn(prompt_class, pool, rng.gauss(5, 0.2))
    drafting = Drafting(lambda _: pools, bandit, rng=rng)
    return Router(
        classifier, Planner(known, drafting, max_drafts=2, rng=rng), Metrics(known, CollectorRegistry())
    )


def text(found: Mapping[str, Sequence[float]]) -> str:
    return table(("", "p50, µs", "p99, µs"), ([name, *_shown(seconds)] for name, seconds in found.items()))


def _shown(seconds: Sequence[float]) -> list[str]:
    parts = statistics.quantiles(seconds, n=100)
    return [f"{1e6 * parts[49]:.0f}", f"{1e6 * parts[98]:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.router", description=__doc__)
    parser.add_argument("--prompts", type=Path, default=_PROMPTS)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    asked, classifier = requests(options.prompts), LinearClassifier.load()
    found = {
        "classification": times(
            lambda request: classifier(request.head, request.prompt_characters), asked, options.rounds
        ),
        "decision": times(router(classifier).route, asked, options.rounds),
    }
    print(text(found))


if __name__ == "__main__":
    main()
