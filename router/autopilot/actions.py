"""What the autopilot may do, and the record of it."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Kind(enum.StrEnum):
    SHRINK = "shrink"  # shorter blocks
    GROW = "grow"  # that did not help: as before
    SWITCH = "switch"  # the class does without this draft, others are there
    PLAIN = "plain"  # the class does without this draft, and no other is there
    RETURN = "return"  # the draft is used again
    RETRAIN = "retrain"  # somebody may train the draft on this class
    RELEASE = "release"  # undone by hand


@dataclass(frozen=True, slots=True)
class Action:
    """``at_ms``: milliseconds of unix time. ``largest_block``: after the action; 0: no limit."""

    at_ms: int
    kind: Kind
    prompt_class: str
    pool: str
    reason: str
    largest_block: int = 0
