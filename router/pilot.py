"""Keeps the steering current: reads the switches, and flies the autopilot on the router that leads."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from common import logging
from common.errors import Unavailable
from common.switches import READ_SECONDS, State, SwitchReader
from router.autopilot.actions import Action
from router.autopilot.autopilot import Autopilot
from router.steering import Steering
from router.store import Store

log = logging.get("router.autopilot")


def unix_ms() -> int:
    return time.time_ns() // 1_000_000


class Pilot:
    """
    One of the routers leads: it decides and saves what is in force; the others do as is saved. Without Redis
    nothing changes any more, and what was in force stays so.

    Args:
        acting: whether the autopilot may do anything; else only the switches are read.
        on_action: told of each action of this router.
    """

    def __init__(
        self,
        store: Store,
        autopilot: Autopilot,
        *,
        acting: bool = True,
        on_action: Callable[[Action], None] = lambda _: None,
        clock: Callable[[], int] = unix_ms,
    ) -> None:
        self.autopilot = autopilot
        self.leads = False
        self.steering = Steering()
        self._store = store
        self._acting = acting
        self._on_action = on_action
        self._clock = clock
        self._name = uuid.uuid4().hex
        self._switches = SwitchReader(store.switches)
        self._saved: Mapping[str, Any] = {}
        self._reached = True

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.tick()
            await asyncio.sleep(READ_SECONDS)

    async def tick(self) -> None:
        """Read what others have set, and decide if this router leads."""
        try:
            await self._read_switches()
            if self._acting:
                await self._fly()
            self._reached = True
        except Unavailable as error:
            if self._reached:
                log.warning("the autopilot stands still", error=error.message)
            self._reached, self.leads = False, False
        self._steer()

    async def switch(self, name: str, state: State) -> None:
        """Set a switch, here at once and elsewhere when it is read next.

        Raises:
            Unavailable: without Redis; nothing was set then.
        """
        await self._store.set_switch(name, state)
        log.info("switched", prompt_class=name, state=state.value)
        self._switches.switches = {**self._switches.switches, name: state}
        self._steer()

    async def release(self, prompt_class: str, pool: str) -> Action | None:
        """Undo what the autopilot has in force for a class and a pool. None: nothing is.

        Raises:
            Unavailable: without Redis; it is undone here only, until another router leads.
        """
        action = self.autopilot.release(prompt_class, pool, self._clock())
        if action:
            self._tell(action)
            self._steer()
            await self._save()
        return action

    async def _read_switches(self) -> None:
        """A Redis that came back empty gets back what was set."""
        known = self._switches.switches
        await self._switches.read()
        if known and not self._switches.switches:
            await self._store.restore_switches(known)
            self._switches.switches = known

    async def _fly(self) -> None:
        led, self.leads = self.leads, await self._store.lead(self._name)
        if not (led and self.leads):
            self.autopilot.adopt(await self._store.autopilot())
        if not self.leads:
            return
        now_ms = self._clock()
        taken = self.autopilot.decide(now_ms)
        trainings = self.autopilot.trainings(now_ms, taken)
        for action in (*taken, *trainings):
            self._tell(action)
        for action in trainings:
            await self._store.ask_for_training(action.prompt_class, action.pool, action.reason)
        await self._save()

    async def _save(self) -> None:
        state = self.autopilot.export()
        if state != self._saved:
            await self._store.save_autopilot(state)
            self._saved = state

    def _tell(self, action: Action) -> None:
        log.info(
            "action",
            kind=action.kind.value,
            prompt_class=action.prompt_class,
            pool=action.pool,
            reason=action.reason,
            largest_block=action.largest_block,
        )
        self._on_action(action)

    def _steer(self) -> None:
        pairs = self.autopilot.pairs
        self.steering = Steering(
            self._switches.switches,
            {key: pair.rest.reason for key, pair in pairs.items() if pair.rest},
            {key: pair.largest_block for key, pair in pairs.items() if pair.largest_block},
        )
