"""The outermost layer answers what nothing else does."""

from __future__ import annotations

import httpx
import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.middleware import RequestContext


async def broken(scope: Scope, receive: Receive, send: Send) -> None:
    raise ZeroDivisionError("secret of the implementation")


async def breaks_late(scope: Scope, receive: Receive, send: Send) -> None:
    await Response("begun")(scope, receive, send)
    raise ZeroDivisionError("secret of the implementation")


async def test_a_fault_is_a_500_that_keeps_its_details_to_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    transport = httpx.ASGITransport(RequestContext(broken))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        response = await client.get("/", headers={"X-Request-Id": "r1"})
    assert response.status_code == 500
    assert response.headers["X-Request-Id"] == "r1"
    assert response.json()["error"]["code"] == "internal_error"
    assert "secret" not in response.text
    assert "ZeroDivisionError" in "".join(capfd.readouterr())


async def test_a_fault_after_the_first_byte_breaks_the_connection() -> None:
    transport = httpx.ASGITransport(RequestContext(breaks_late))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        with pytest.raises(ZeroDivisionError):
            await client.get("/")
