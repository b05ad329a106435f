from __future__ import annotations

import httpx
import pytest
from redis.asyncio import Redis

from fact_check_service.wikidata.cache import Cache
from fact_check_service.wikidata.client import Client
from fact_check_service.wikidata.lookup import Lookup


class Stuck(httpx.AsyncBaseTransport):
    """A transport whose connections cannot be closed."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={})

    async def aclose(self) -> None:
        raise OSError("the other side is gone")


class Watched(Cache):
    """One that says whether it was closed."""

    closed = False

    async def close(self) -> None:
        await super().close()
        self.closed = True


async def test_the_cache_is_closed_though_the_client_cannot_be() -> None:
    cache = Watched(Redis(host="127.0.0.1", port=1))
    client = Client("http://wiki.test/w/api.php", Stuck(), timeout_seconds=1, max_bytes=1_000)
    with pytest.raises(OSError, match="the other side is gone"):
        await Lookup(client, cache, seconds=1, negative_seconds=1).close()
    assert cache.closed
