"""What the worker counts."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

SAMPLES = Counter("tandem_distil_received_samples", "Samples that came, by what became of them", ["fate"])
ROUNDS = Counter("tandem_distil_rounds", "Rounds of fine-tuning, by their outcome", ["outcome"])
ACCEPTANCE = Gauge(
    "tandem_distil_acceptance", "Part of the guesses that stood in the last round", ["answers", "head"]
)
VERSION = Gauge("tandem_distil_version", "The version published last")


def start_at_zero() -> None:
    """Make every labelled series exist before its first event."""
    for fate in ("kept", "malformed", "foreign"):
        SAMPLES.labels(fate)
    for outcome in ("published", "refused", "postponed"):
        ROUNDS.labels(outcome)
