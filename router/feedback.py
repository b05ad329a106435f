"""Follows what verify replicas report of finished answers.

The stream is what routers share: each folds the same entries in the same order into what it knows, a router
that starts reads what is kept of the past first, and nothing else has to be written anywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from common import logging
from common.errors import InvalidRequest, Unavailable
from common.feedback import FeedbackRecord, decode_feedback
from router.store import Store

HISTORY = 10_000
_READ_COUNT = 512
_BLOCK_MS = 1000
_RETRY_SECONDS = 0.5

Learner = Callable[[FeedbackRecord], None]

log = logging.get("router.feedback")


class FeedbackReader:
    """
    Args:
        learners: told every record, those from before the start too.
        watchers: told those that come while the router runs.
    """

    def __init__(self, store: Store, learners: Sequence[Learner], watchers: Sequence[Learner] = ()) -> None:
        self._store = store
        self._learners = learners
        self._watchers = watchers
        self._last_id: Any = None
        self._reached = True
        self.malformed = 0

    async def run(self) -> None:
        """Read until cancelled; after a loss of Redis go on where reading stopped."""
        while True:
            try:
                await self.read()
                self._reached = True
            except Unavailable as error:
                if self._reached:
                    log.warning("feedback is out of reach", error=error.message)
                self._reached = False
                await asyncio.sleep(_RETRY_SECONDS)

    async def read(self) -> None:
        """The past, the first time; later what has come since, waited for at most a second.

        Raises:
            Unavailable: where Redis cannot be reached.
        """
        if self._last_id is None:
            entries = await self._store.history(HISTORY)
            self._last_id = entries[-1][0] if entries else b"0-0"
            self._tell(entries, self._learners)
            return
        entries = await self._store.feedback_after(self._last_id, _BLOCK_MS, _READ_COUNT)
        if entries:
            self._last_id = entries[-1][0]
        self._tell(entries, [*self._learners, *self._watchers])

    def _tell(self, entries: Sequence[Any], listeners: Sequence[Learner]) -> None:
        for _, fields in entries:
            try:
                record = decode_feedback(fields)
            except InvalidRequest as error:
                self.malformed += 1
                log.warning("malformed feedback", error=error.message)
                continue
            for listen in listeners:
                listen(record)
