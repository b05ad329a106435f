"""Everything in the router that learns, and what feeds it."""

from __future__ import annotations

import asyncio
import math
import random
from contextlib import suppress

from common.errors import Unavailable
from common.feedback import FeedbackRecord
from router.autopilot.autopilot import Autopilot, PoolsOf
from router.autopilot.pair import first_of
from router.config import RouterConfig
from router.drafting import Shares
from router.feedback import FeedbackReader, Learner
from router.learning.bandit import Bandit, Learning
from router.metrics import Metrics
from router.pilot import Pilot
from router.steering import Steering
from router.store import Store, connect

_FEWEST_TOKENS = 8


class Mind:
    """Without Redis it knows nothing, and the configured order of pools is all there is.

    Args:
        pools_of: the pools that a class may use.
        watcher: told of each answer that ends while the router runs.
    """

    def __init__(self, config: RouterConfig, metrics: Metrics, pools_of: PoolsOf, watcher: Learner) -> None:
        self._config = config
        self.bandit = Bandit(Learning(explore=config.explore), random.Random())
        self.autopilot = Autopilot(pools_of)
        self.pilot: Pilot | None = None
        self._store: Store | None = None
        if config.redis_url:
            self._store = Store(connect(config.redis_url))
            self.pilot = Pilot(
                self._store,
                self.autopilot,
                acting=config.autopilot,
                on_action=lambda action: metrics.actions.labels(action.kind.value).inc(),
            )
            self._feedback = FeedbackReader(self._store, [self.learn, self.autopilot.learn], [watcher])

    def steering(self) -> Steering:
        return self.pilot.steering if self.pilot else Steering()

    @property
    def shares(self) -> Shares:
        """What is spent on finding out; nothing where nobody would learn from it."""
        config = self._config
        if self.pilot is None or not config.autopilot:
            return Shares()
        return Shares(config.plain_share, min(5 * config.plain_share, 1.0), config.watched_share)

    def needs_plain(self, prompt_class: str) -> bool:
        return self.pilot is not None and self.autopilot.needs_plain(prompt_class)

    def learn(self, record: FeedbackRecord) -> None:
        """Answers that somebody drafted, as far as their speed tells something."""
        drafted = first_of(record)
        if drafted and not record.shadow and record.tokens >= _FEWEST_TOKENS and record.seconds > 0:
            value = math.log(record.tokens / record.seconds)
            self.bandit.learn(record.prompt_class, drafted.pool, value)

    async def start(self) -> None:
        """Learn from the past, before the first plan; a Redis that does not answer is not waited for."""
        if self.pilot is None:
            return
        await self.pilot.tick()
        with suppress(Unavailable):  # the log has it already
            await self._feedback.read()

    async def run(self) -> None:
        """Until cancelled."""
        if self.pilot is None:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self.pilot.run())
            group.create_task(self._feedback.run())

    async def close(self) -> None:
        if self._store:
            await self._store.close()
