"""The manual switch of speculation, for all prompts and by class: kept in Redis, read everywhere."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from common import logging
from common.errors import Unavailable

KEY = "tandem:switches"
"""A hash from a class of prompts, or ``EVERY_CLASS``, to a ``State``."""

EVERY_CLASS = "all"
READ_SECONDS = 0.25

log = logging.get("switches")


class State(enum.StrEnum):
    """Of speculation: used, watched without being used, or not done."""

    ON = "on"
    SHADOW = "shadow"
    OFF = "off"


_SEVERITY = (State.ON, State.SHADOW, State.OFF)
_VALUES = frozenset(State)

Switches = Mapping[str, State]
"""By class; what is not named is on."""

NONE: Switches = MappingProxyType({})


def state_of(switches: Switches, prompt_class: str) -> State:
    """Of the switches for the class and for all, the one that allows less."""
    return max((switches.get(name, State.ON) for name in (prompt_class, EVERY_CLASS)), key=_SEVERITY.index)


def decode(fields: Mapping[bytes, bytes]) -> Switches:
    """What is no state is left out, as if it were on."""
    read = {name.decode(errors="replace"): value.decode(errors="replace") for name, value in fields.items()}
    return {name: State(value) for name, value in read.items() if value in _VALUES}


class SwitchReader:
    """Reads the switches again and again; while that fails, what was read last stays in force.

    ``fetch`` gives the fields of ``KEY`` within a bounded time, or raises Unavailable.
    """

    def __init__(self, fetch: Callable[[], Awaitable[Mapping[bytes, bytes]]]) -> None:
        self.switches = NONE
        self._fetch = fetch
        self._reached = True

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            await self.read()
            await asyncio.sleep(READ_SECONDS)

    async def read(self) -> None:
        try:
            self.switches = decode(await self._fetch())
        except Unavailable as error:
            if self._reached:
                log.warning("switches cannot be read, the last ones stay in force", error=error.message)
            self._reached = False
        else:
            self._reached = True
