"""How drafting is steered from outside of a request: the switch, and what the autopilot has done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from common import switches
from common.switches import State, Switches

Pair = tuple[str, str]
"""A class of prompts and a draft pool."""


@dataclass(frozen=True, slots=True)
class Steering:
    """
    Attributes:
        switches: set by hand.
        resting: pools that a class does without, with the reason.
        largest_block: most guesses of a block where that is limited.
    """

    switches: Switches = field(default_factory=lambda: switches.NONE)
    resting: Mapping[Pair, str] = field(default_factory=lambda: MappingProxyType({}))
    largest_block: Mapping[Pair, int] = field(default_factory=lambda: MappingProxyType({}))

    def state(self, prompt_class: str) -> State:
        return switches.state_of(self.switches, prompt_class)
