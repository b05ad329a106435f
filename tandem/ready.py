"""When a stack is ready: its services say so, the router plans with the drafts, the gateway reaches it."""

from __future__ import annotations

import asyncio
import time

import httpx
from prometheus_client.parser import text_string_to_metric_families

from common import rpc
from tandem.stack import HOST, Stack

_POLL_SECONDS = 0.2


async def ready(stack: Stack) -> bool:
    grpc_services = [stack.verify_address, *stack.draft_addresses.values()]
    answers = await asyncio.gather(*(rpc.healthy(address) for address in grpc_services))
    if not all(answers) or await _get(f"{stack.url}/readyz") is None:
        return False
    if not stack.ports.router_metrics:  # off: what it plans with cannot be seen
        return True
    metrics = await _get(f"http://{HOST}:{stack.ports.router_metrics}/metrics") or ""
    return _planned(metrics).issuperset(stack.draft_addresses.values())


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


def _planned(router_metrics: str) -> set[str]:
    """The addresses that the router's plans may name."""
    return {
        sample.labels["address"]
        for family in text_string_to_metric_families(router_metrics)
        for sample in family.samples
        if sample.name == "tandem_router_endpoint_ready" and sample.value
    }


async def _get(url: str) -> str | None:
    """None: no answer, or not 200."""
    try:
        async with httpx.AsyncClient(timeout=2) as client:
            answer = await client.get(url)
    except httpx.HTTPError:
        return None
    return answer.text if answer.status_code == 200 else None
