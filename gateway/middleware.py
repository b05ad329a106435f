"""Around every request: its id, its line in the log, its count, and an answer to what nobody expected."""

from __future__ import annotations

import re
import time
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from common import logging
from common.errors import Cancelled, Internal
from gateway.errors import to_response
from gateway.metrics import REQUESTS

_SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")

_PROBES = ("/livez", "/readyz", "/metrics")

log = logging.get("gateway.http")


class RequestContext:
    """Sets ``scope["state"]["request_id"]`` and sends it back as ``X-Request-Id``."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = choose_request_id(Headers(scope=scope).get("x-request-id"))
        scope.setdefault("state", {})["request_id"] = request_id
        exchange = _Exchange(send, request_id)
        started = time.monotonic()
        try:
            await self._app(scope, receive, exchange.send)
        except Exception:
            log.exception("unexpected error", request_id=request_id)
            if exchange.started:  # only a broken connection can still tell the client
                raise
            await to_response(Internal("a fault of the gateway; its log has the details"))(
                scope, receive, exchange.send
            )
        finally:
            _record(scope, request_id, exchange.status, time.monotonic() - started)


class _Exchange:
    """What has been sent for one request so far."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id
        self.started = False
        self.status = Cancelled.http_status  # until something is sent

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            MutableHeaders(scope=message)["X-Request-Id"] = self._request_id
        await self._send(message)


def choose_request_id(incoming: str | None) -> str:
    """The client's id when it is short and plain, else a new one."""
    return incoming if incoming and _SANE_ID.fullmatch(incoming) else uuid.uuid4().hex


def _record(scope: Scope, request_id: str, status: int, seconds: float) -> None:
    route: str = getattr(scope.get("route"), "path", "other")
    REQUESTS.labels(route=route, status=str(status)).inc()
    say = log.debug if route in _PROBES else log.info
    say("request", request_id=request_id, route=route, status=status, seconds=round(seconds, 4))
