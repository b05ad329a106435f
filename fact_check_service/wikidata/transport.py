"""HTTP to hosts of a list, at addresses that were checked."""

from __future__ import annotations

from collections.abc import Collection

import httpx

from fact_check_service.wikidata.addresses import Resolve, public, resolve

_MOST_ADDRESSES = 2


class Refused(Exception):
    """The host is not on the list, or has an address that may not be spoken to."""


class GuardedTransport(httpx.AsyncBaseTransport):
    """Connects to the very address that was checked, so that a name that changes its address in between gains
    nothing; ``Host`` and the name that TLS checks stay the host's."""

    def __init__(self, hosts: Collection[str], private: bool = False, resolve: Resolve = resolve) -> None:
        """
        Args:
            hosts: in lower case.
            private: whether private addresses may be spoken to.
        """
        self._hosts = hosts
        self._private = private
        self._resolve = resolve
        self._inner = httpx.AsyncHTTPTransport(trust_env=False, limits=httpx.Limits(max_connections=8))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """
        Raises:
            Refused: before anything is sent.
        """
        addresses = await self._addresses(request.url)
        for address in addresses[:-1]:
            try:
                return await self._send(request, address)
            except httpx.ConnectError:
                continue
        return await self._send(request, addresses[-1])

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _addresses(self, url: httpx.URL) -> list[str]:
        if url.host.lower() not in self._hosts:
            raise Refused(f"{url.host} is not an allowed host")
        port = url.port or (443 if url.scheme == "https" else 80)
        try:
            found = list(dict.fromkeys(await self._resolve(url.host, port)))
        except OSError as error:
            raise httpx.ConnectError(f"{url.host}: {error}") from error
        if not found:
            raise httpx.ConnectError(f"{url.host} has no address")
        if not self._private and not all(map(public, found)):
            raise Refused(f"{url.host} has an address that is not public")
        return found[:_MOST_ADDRESSES]

    async def _send(self, request: httpx.Request, address: str) -> httpx.Response:
        return await self._inner.handle_async_request(
            httpx.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": request.url.host},
            )
        )
