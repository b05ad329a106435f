"""What the draft service counts. Labels come from fixed sets."""

from __future__ import annotations

import itertools

from prometheus_client import Counter, Gauge, Histogram

from draft_service.sources.registry import MODULES

SESSIONS = Gauge("tandem_draft_sessions", "Sessions open")
ROUND_SESSIONS = Histogram(
    "tandem_draft_round_sessions", "Sessions drafted in one round", buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256)
)
ROUND_SECONDS = Histogram(
    "tandem_draft_round_seconds",
    "Time of a drafting round",
    buckets=(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)
PROPOSED_TOKENS = Counter("tandem_draft_proposed_tokens", "Guesses sent")
AHEAD = Counter("tandem_draft_ahead_blocks_sent", "Blocks sent for what the target might decide")
REFUSED = Counter("tandem_draft_refused_sessions", "Sessions refused", ["code"])
UNREPRODUCIBLE = Counter(
    "tandem_draft_unreproducible_sessions", "Sessions whose text the draft's own tokenizer does not give back"
)
SOURCE_GUESSES = Counter(
    "tandem_draft_source_guesses", "Guesses of each source of a pool, by outcome", ["source", "outcome"]
)
HEAD_SWAPS = Counter("tandem_draft_head_swaps", "Versions of a head, by what became of them", ["outcome"])
HEAD_VERSION = Gauge("tandem_draft_head_version", "The version that is drafting; 0: the configured head")
PUBLISHED = Counter("tandem_draft_published_blocks", "Blocks for the fact check, by outcome", ["outcome"])


def start_at_zero() -> None:
    for source, outcome in itertools.product(MODULES, ("stood", "fell")):
        SOURCE_GUESSES.labels(source, outcome)
    for code in ("fingerprint_mismatch", "overloaded", "out_of_sync", "invalid_request"):
        REFUSED.labels(code)
    for outcome in ("taken", "refused"):
        HEAD_SWAPS.labels(outcome)
    for outcome in ("published", "dropped", "failed"):
        PUBLISHED.labels(outcome)
