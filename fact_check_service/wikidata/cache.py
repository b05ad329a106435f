"""What was asked before, in Redis; without Redis everything is asked again."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

_PREFIX = "tandem:wikidata:1:"


class Cache:
    """Values are objects of JSON. A failure of Redis is a miss."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def get(self, key: str) -> dict[str, Any] | None:
        with suppress(RedisError, OSError, ValueError):
            found = await self._redis.get(_PREFIX + key)
            value = json.loads(found) if found else None
            return value if isinstance(value, dict) else None
        return None

    async def put(self, key: str, value: dict[str, Any], seconds: int) -> None:
        with suppress(RedisError, OSError):
            await self._redis.set(_PREFIX + key, json.dumps(value, ensure_ascii=False), ex=seconds)

    async def close(self) -> None:
        await self._redis.aclose()
