"""The prompts of the sessions that are checked, as their drafts left them in Redis."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import cast

from redis.asyncio import Redis

from common import streams

_MOST_KEPT = 256


class Prompts:
    """A prompt never changes, so what was read once is kept, for the sessions used last."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._known: OrderedDict[str, str] = OrderedDict()

    async def of(self, session_ids: Iterable[str]) -> dict[str, str]:
        """By session; empty where none was left, or it has expired."""
        wanted = list(dict.fromkeys(session_ids))
        missing = [session_id for session_id in wanted if session_id not in self._known]
        if missing:
            keys = [streams.prompt_key(session_id) for session_id in missing]
            found = cast(list[bytes | None], await self._redis.mget(keys))
            texts = (value.decode(errors="replace") if value else "" for value in found)
            self._known.update(zip(missing, texts, strict=True))
        prompts = {session_id: self._known[session_id] for session_id in wanted}
        for session_id in wanted:
            self._known.move_to_end(session_id)
        while len(self._known) > _MOST_KEPT:
            self._known.popitem(last=False)
        return prompts
