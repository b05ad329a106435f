"""The API of Wikidata, with patience and bounds."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from fact_check_service.wikidata.transport import Refused

BACKOFF_SECONDS = 0.05
_AGENT = "tandem-fact-check/0.1 (checks facts in drafted text)"
_TOO_MANY = 429
_BUSY = frozenset({"maxlag", "ratelimited"})
_CANDIDATES = 5


class LookupFailed(Exception):
    """There is no answer; ``outcome`` is what the metric calls it."""

    def __init__(self, outcome: str, why: str) -> None:
        super().__init__(why)
        self.outcome = outcome


class _TryAgain(Exception):
    """``seconds`` is what the server asked for; None where it did not."""

    def __init__(self, why: str, seconds: float | None = None, outcome: str = "failed") -> None:
        super().__init__(why)
        self.seconds = seconds
        self.outcome = outcome


class Client:
    """Asks again after what may pass, until the time is over that the caller gives."""

    def __init__(
        self, url: str, transport: httpx.AsyncBaseTransport, *, timeout_seconds: float, max_bytes: int
    ) -> None:
        """
        Args:
            timeout_seconds: longest for one request, from the look-up of the address to the last byte.
        """
        self._url = url
        self._timeout_seconds = timeout_seconds
        self._max_bytes = max_bytes
        self._quiet_until = 0.0
        self._http = httpx.AsyncClient(
            transport=transport,
            trust_env=False,
            follow_redirects=False,
            timeout=timeout_seconds,
            # What is not encoded cannot be larger than what was sent.
            headers={"User-Agent": _AGENT, "Accept-Encoding": "identity"},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def search(self, name: str, language: str, deadline: float) -> list[Mapping[str, Any]]:
        """Items that may have this name, the best match first.

        Args:
            deadline: on the clock ``time.monotonic``.

        Raises:
            LookupFailed: without an answer by then.
        """
        answer = await self._ask(
            deadline,
            action="wbsearchentities",
            search=name,
            language=language,
            uselang=language,
            type="item",
            limit=str(_CANDIDATES),
        )
        return [found for found in _member(answer, "search", list) if isinstance(found, dict)]

    async def entity(self, item: str, language: str, deadline: float) -> Mapping[str, Any]:
        """The item with its label and claims. Raises as ``search`` does."""
        answer = await self._ask(
            deadline, action="wbgetentities", ids=item, props="labels|claims", languages=language
        )
        found: Mapping[str, Any] = _member(_member(answer, "entities", dict), item, dict)
        return found

    async def _ask(self, deadline: float, **parameters: str) -> Mapping[str, Any]:
        attempt = 0
        while True:
            if max(time.monotonic(), self._quiet_until) >= deadline:
                throttled = self._quiet_until >= deadline
                raise LookupFailed("throttled" if throttled else "late", "no time is left to ask")
            await asyncio.sleep(max(0.0, self._quiet_until - time.monotonic()))
            try:
                return await self._ask_once(deadline, parameters)
            except _TryAgain as error:
                await self._wait(error, attempt, deadline)
            attempt += 1

    async def _wait(self, error: _TryAgain, attempt: int, deadline: float) -> None:
        """As long as the server asked for, or longer each time; not at all when that is past the deadline."""
        if error.seconds is not None:
            # Every later question waits too, of this text or another.
            self._quiet_until = max(self._quiet_until, time.monotonic() + error.seconds)
        seconds = error.seconds or BACKOFF_SECONDS * 2 ** min(attempt, 10) * random.uniform(0.5, 1.0)
        if time.monotonic() + seconds >= deadline:
            raise LookupFailed(error.outcome, str(error)) from error
        await asyncio.sleep(seconds)

    async def _ask_once(self, deadline: float, parameters: Mapping[str, str]) -> Mapping[str, Any]:
        seconds = min(self._timeout_seconds, deadline - time.monotonic())
        try:
            async with asyncio.timeout(seconds):
                return await self._fetch({**parameters, "format": "json"})
        except (TimeoutError, httpx.TimeoutException):
            raise _TryAgain("no answer in time", outcome="late") from None
        except httpx.TransportError as error:
            raise _TryAgain(f"{type(error).__name__}: {error}") from error
        except Refused as error:
            raise LookupFailed("refused", str(error)) from error

    async def _fetch(self, parameters: Mapping[str, str]) -> Mapping[str, Any]:
        async with self._http.stream("GET", self._url, params=parameters) as response:
            if response.status_code == _TOO_MANY or response.is_server_error:
                outcome = "throttled" if response.status_code == _TOO_MANY else "failed"
                raise _TryAgain(f"status {response.status_code}", _retry_after(response), outcome)
            if response.status_code != httpx.codes.OK:
                raise LookupFailed("failed", f"status {response.status_code}")
            answer = _decoded(await self._body(response))
        error = answer.get("error")
        if error is None:
            return answer
        code = error.get("code") if isinstance(error, dict) else None
        if code in _BUSY:
            raise _TryAgain(f"the API says {code}", _retry_after(response), "throttled")
        raise LookupFailed("failed", f"the API says {code}")

    async def _body(self, response: httpx.Response) -> bytes:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise LookupFailed("failed", "the answer is encoded")
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > self._max_bytes:
                raise LookupFailed("failed", f"the answer is longer than {self._max_bytes} bytes")
        return bytes(body)


def _decoded(body: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(body)
    # RecursionError: of brackets within brackets.
    except (ValueError, RecursionError) as error:
        raise LookupFailed("failed", f"the answer is not JSON: {error}") from error
    if not isinstance(answer, dict):
        raise LookupFailed("failed", "the answer is no object")
    return answer


def _member(answer: Mapping[str, Any], name: str, kind: type) -> Any:
    found = answer.get(name)
    if not isinstance(found, kind):
        raise LookupFailed("failed", f"the answer has no {name}")
    return found


def _retry_after(response: httpx.Response) -> float | None:
    """In seconds: a number of them, or a date."""
    written = response.headers.get("retry-after", "")
    if written.isdecimal() and written.isascii():
        return float(written[:9])
    try:
        return max(0.0, parsedate_to_datetime(written).timestamp() - time.time())
    except ValueError:
        return None
