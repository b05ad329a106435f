"""Items by name: from the cache, or asked for and kept."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from common import logging
from fact_check_service import metrics
from fact_check_service.wikidata.cache import Cache
from fact_check_service.wikidata.client import Client, LookupFailed
from fact_check_service.wikidata.items import Item, item

_ITEM = re.compile(r"Q[1-9][0-9]{0,11}")
_NOTHING: dict[str, Any] = {}

log = logging.get("wikidata")


class Lookup:
    """Never raises for what the network does: what cannot be asked is counted, and not known."""

    def __init__(self, client: Client, cache: Cache, *, seconds: int, negative_seconds: int) -> None:
        """
        Args:
            seconds: how long an item is kept.
            negative_seconds: how long it is kept that a name has no item.
        """
        self._client = client
        self._cache = cache
        self._seconds = seconds
        self._negative_seconds = negative_seconds

    async def named(self, name: str, language: str, deadline: float) -> Item | None:
        """The item that a name means first of all.

        Args:
            language: "en" or "zh".
            deadline: on the clock ``time.monotonic``.
        """
        key = f"{language}:{name.casefold()}"
        kept = await self._cache.get(key)
        if kept is not None:
            metrics.LOOKUPS.labels("cached").inc()
            return _kept(kept)
        try:
            found = await self._ask(name, language, deadline)
        except LookupFailed as error:
            metrics.LOOKUPS.labels(error.outcome).inc()
            log.warning("wikidata gave no answer", outcome=error.outcome, error=str(error))
            return None
        metrics.LOOKUPS.labels("found" if found else "nothing").inc()
        if found:
            await self._cache.put(key, asdict(found), self._seconds)
        else:
            await self._cache.put(key, _NOTHING, self._negative_seconds)
        return found

    async def close(self) -> None:
        """Both are closed, whatever becomes of the first."""
        try:
            await self._client.close()
        finally:
            await self._cache.close()

    async def _ask(self, name: str, language: str, deadline: float) -> Item | None:
        number = _first(await self._client.search(name, language, deadline), name)
        if number is None:
            return None
        found = item(number, await self._client.entity(number, language, deadline), language)
        return found if found.values else None


def _first(candidates: Sequence[Mapping[str, Any]], name: str) -> str | None:
    """The best item whose label or alias is the name itself, not one that only begins with it."""
    for candidate in candidates:
        match, number = candidate.get("match"), candidate.get("id")
        written = match.get("text") if isinstance(match, dict) else candidate.get("label")
        same = isinstance(written, str) and written.casefold() == name.casefold()
        if same and isinstance(number, str) and _ITEM.fullmatch(number):
            return number
    return None


def _kept(value: Mapping[str, Any]) -> Item | None:
    try:
        return Item(value["id"], value["label"], value["values"])
    except KeyError:
        return None
