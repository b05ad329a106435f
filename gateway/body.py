"""Reading a request's body within bounds of size and time."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from common.errors import Cancelled, TimedOut
from gateway.errors import PayloadTooLarge


async def read_body(request: Request, max_bytes: int, timeout_seconds: float) -> bytes:
    """Raises PayloadTooLarge, TimedOut, or Cancelled when the client leaves before its end."""
    try:
        async with asyncio.timeout(timeout_seconds):
            return await _read(request, max_bytes)
    except TimeoutError:
        raise TimedOut("the body did not arrive in time") from None
    except ClientDisconnect:
        raise Cancelled("the client left") from None


async def _read(request: Request, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise PayloadTooLarge(f"the body is larger than {max_bytes} bytes")
    return bytes(body)
