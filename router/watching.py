"""What verify replicas saw of drafts, told to the drafts' breakers."""

from __future__ import annotations

from common.feedback import FeedbackRecord
from router.breaker import Outcome
from router.registry import Registry


def watch(registry: Registry, record: FeedbackRecord) -> None:
    """One answer counts once for each replica: a bad block, or a block that did not come in time, stands for
    all of it, and a replica that was slow has not answered, which is all that a poll could say for it."""
    for drafted in record.drafts:
        endpoint = registry.find(drafted.address)
        if endpoint is None:
            continue
        if drafted.bad_blocks:
            endpoint.breaker.record(Outcome.BAD_BLOCK)
        elif drafted.blocks:
            endpoint.breaker.record(Outcome.GOOD_BLOCK)
        if drafted.missed_waits:
            endpoint.breaker.record(Outcome.SLOW)
