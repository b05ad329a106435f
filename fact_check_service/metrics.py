"""What the service counts."""

from __future__ import annotations

import math
from collections.abc import Iterable

from prometheus_client import Counter, Gauge, Histogram

BLOCKS = Counter("tandem_fact_check_blocks", "Blocks checked.")
FLAGS = Counter("tandem_fact_check_flags", "Contradicted claims flagged, by check.", ["check"])
CHECK_FAILURES = Counter(
    "tandem_fact_check_check_failures",
    "Checks without an opinion on a block: late, or failed",
    ["check", "why"],
)
LOOKUPS = Counter("tandem_fact_check_lookups", "Names and items asked of Wikidata, by outcome.", ["outcome"])
LOOKUP_OUTCOMES = ("found", "nothing", "cached", "refused", "throttled", "late", "failed")
MALFORMED = Counter("tandem_fact_check_malformed", "Entries that could not be read or checked.")
CLAIMED = Counter("tandem_fact_check_claimed", "Entries taken over from a worker that left them pending.")
DEAD_LETTERS = Counter("tandem_fact_check_dead_letters", "Entries given up after too many deliveries.")
EXPIRED = Counter("tandem_fact_check_expired", "Entries too old for their verdict to be of use.")
DUPLICATES = Counter("tandem_fact_check_duplicates", "Verdicts not stored again.")
TRIMMED = Counter(
    "tandem_fact_check_trimmed",
    "Entries that the cap of the stream removed: unread, or pending, when who holds them may yet answer.",
    ["when"],
)
SECONDS = Histogram(
    "tandem_fact_check_seconds",
    "Time to check one block.",
    buckets=(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5),
)
LAG = Gauge("tandem_fact_check_lag", "Entries not yet delivered to the group, and pending; NaN when unknown.")


def start(checks: Iterable[str]) -> None:
    """Begin every labelled counter at 0: a rate needs the value before the first event."""
    LAG.set(math.nan)
    for when in ("unread", "pending"):
        TRIMMED.labels(when)
    for outcome in LOOKUP_OUTCOMES:
        LOOKUPS.labels(outcome)
    for check in checks:
        FLAGS.labels(check)
        for why in ("late", "failed"):
            CHECK_FAILURES.labels(check, why)
