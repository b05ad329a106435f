"""When a stack is ready: every gRPC service says so, and the gateway reaches them."""

from __future__ import annotations

import asyncio
import time

import httpx

from common import rpc
from tandem.stack import Stack

_POLL_SECONDS = 0.2


async def ready(stack: Stack) -> bool:
    grpc_services = [stack.verify_address, *stack.draft_addresses.values()]
    answers = await asyncio.gather(*(rpc.healthy(address) for address in grpc_services))
    return all(answers) and await _answers_200(f"{stack.url}/readyz")


async def wait_ready(stack: Stack, timeout_seconds: float) -> float:
    """Seconds it took.

    Raises:
        TimeoutError: when the stack is not ready by then.
    """
    started = time.monotonic()
    async with asyncio.timeout(timeout_seconds):
        while not await ready(stack):
            await asyncio.sleep(_POLL_SECONDS)
    return time.monotonic() - started


async def _answers_200(url: str) -> bool:
    try:
        async with httpx.AsyncClient(timeout=2) as client:
            return (await client.get(url)).status_code == 200
    except httpx.HTTPError:
        return False
