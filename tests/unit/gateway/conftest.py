from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.unit.gateway.fakes import Backend, direct_client, live_gateway


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    backend = Backend()
    await backend.start()
    yield backend
    await backend.stop()


@pytest.fixture
async def client(backend: Backend) -> AsyncIterator[httpx.AsyncClient]:
    async with direct_client(backend, max_body_bytes=50_000) as client:
        yield client


@pytest.fixture
async def live(backend: Backend) -> AsyncIterator[httpx.AsyncClient]:
    """Speaks to the application through a real web server."""
    async with live_gateway(backend) as url, httpx.AsyncClient(base_url=url) as client:
        yield client
