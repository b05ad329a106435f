"""Where the verify service reads the manual switch, so that it holds for answers under way too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import redis.asyncio as redis
from redis.exceptions import RedisError

from common import switches
from common.errors import Unavailable
from common.switches import State, SwitchReader


class Switched:
    """``url``: empty: there is no switch, and speculation is on."""

    def __init__(self, url: str) -> None:
        self._redis: Any = None
        if url:
            self._redis = redis.Redis.from_url(url, socket_connect_timeout=1, socket_timeout=1)
        self._reader = SwitchReader(self._fetch)

    def state(self, prompt_class: str) -> State:
        return switches.state_of(self._reader.switches, prompt_class)

    async def run(self) -> None:
        """Read until cancelled."""
        if self._redis is not None:
            await self._reader.run()

    async def close(self) -> None:
        if self._redis is not None:
            await self._redis.aclose()

    async def _fetch(self) -> Mapping[bytes, bytes]:
        try:
            fields: Mapping[bytes, bytes] = await self._redis.hgetall(switches.KEY)
        except (RedisError, OSError) as error:
            raise Unavailable(f"Redis cannot be reached: {error}") from error
        return fields
