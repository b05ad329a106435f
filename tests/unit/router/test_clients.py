from __future__ import annotations

import asyncio

import pytest

from common.errors import TimedOut
from router.clients import GrpcStatusClient
from tests.unit.router.fakes import FakeDraft, endpoint, eventually, listening, registry


async def test_a_forgotten_address_costs_nothing_more_and_may_come_back() -> None:
    client = GrpcStatusClient(5.0)
    async with listening(FakeDraft(sessions=3)) as address:
        known = endpoint(registry(ngram=[address]), address)
        await client.status(known)
        assert len(client) == 1
        await client.forget(address)
        await client.forget("10.0.0.1:1")
        assert len(client) == 0
        assert (await client.status(known)).load == 3
        await client.close()


async def test_a_call_under_way_when_its_address_is_forgotten_ends_as_it_would_have() -> None:
    client = GrpcStatusClient(0.2)
    hanging = FakeDraft()
    hanging.hang = True
    async with listening(hanging) as address:
        polling = asyncio.create_task(client.status(endpoint(registry(ngram=[address]), address)))

        async def under_way() -> bool:
            return len(client) == 1

        await eventually(under_way)
        await client.forget(address)
        with pytest.raises(TimedOut):
            await polling
        await client.close()
