"""Claims against Wikidata."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import httpx
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from common.errors import ConfigError
from fact_check_service.checks.base import Context, Finding
from fact_check_service.claims import Claim
from fact_check_service.config import Config
from fact_check_service.sentences import Span
from fact_check_service.stated import Mention, judge, readable
from fact_check_service.subjects import words
from fact_check_service.wikidata.cache import Cache
from fact_check_service.wikidata.client import Client
from fact_check_service.wikidata.lookup import Lookup
from fact_check_service.wikidata.properties import PROPERTIES, dimension_of
from fact_check_service.wikidata.subjects import subjects
from fact_check_service.wikidata.transport import GuardedTransport

_URL_VARIABLE = "TANDEM_FACT_CHECK_WIKIDATA_URL"
_OWN_SHARE = 0.9
_REDIS_SECONDS = 0.1


class WikidataCheck:
    name = "wikidata"

    def __init__(self, lookup: Lookup, seconds: float) -> None:
        """
        Args:
            seconds: longest for all look-ups of a text; what was found by then is judged.
        """
        self._lookup = lookup
        self._seconds = seconds

    async def judge(self, context: Context) -> Sequence[Finding]:
        deadline = time.monotonic() + self._seconds
        text = context.text
        asked = [
            (sentence, claims)
            for sentence, claims in context.sentences
            if _comparable(text, sentence, claims)
        ]
        mentioned = await asyncio.gather(
            *(self._mentions(context.text, sentence, deadline) for sentence, _ in asked)
        )
        return [
            finding
            for (sentence, claims), mentions in zip(asked, mentioned, strict=True)
            for finding in judge(text, sentence, claims, mentions, self.name)
        ]

    async def close(self) -> None:
        await self._lookup.close()

    async def _mentions(self, text: str, sentence: Span, deadline: float) -> list[Mention]:
        spans = subjects(text, sentence)
        items = await asyncio.gather(
            *(self._lookup.named(text[slice(*span)], _language(text, span), deadline) for span in spans)
        )
        return [Mention(span, found.statements()) for span, found in zip(spans, items, strict=True) if found]


def _comparable(text: str, sentence: Span, claims: Sequence[Claim]) -> bool:
    """Whether it has a claim of a property, and names that: nothing else is worth a look-up."""
    if not readable(text, sentence, claims):
        return False
    found, dimensions = words(text, sentence), {dimension_of(claim.unit) for claim in claims}
    return any(
        listed.dimension in dimensions and any(way <= found for way in listed.named_by)
        for listed in PROPERTIES
    )


def _language(text: str, span: Span) -> str:
    return "en" if text[span.start] < "\u2e80" else "zh"


def make(config: Config) -> WikidataCheck:
    """
    Raises:
        ConfigError: when the host of the URL is not allowed.
    """
    hosts = frozenset(host.lower() for host in config.wikidata_hosts)
    host = httpx.URL(config.wikidata_url).host
    if host not in hosts:
        raise ConfigError(f"{_URL_VARIABLE}: {host} is none of the allowed hosts", field=_URL_VARIABLE)
    client = Client(
        config.wikidata_url,
        GuardedTransport(hosts, config.wikidata_private),
        timeout_seconds=config.wikidata_timeout_ms / 1000,
        max_bytes=config.wikidata_max_bytes,
    )
    lookup = Lookup(
        client,
        Cache(_redis(config.redis_url)),
        seconds=config.wikidata_cache_seconds,
        negative_seconds=config.wikidata_negative_seconds,
    )
    return WikidataCheck(lookup, _OWN_SHARE * config.check_ms / 1000)


def _redis(url: str) -> Redis:
    """A client that gives up soon: a cache that has to be waited for is none."""
    return Redis.from_url(
        url,
        protocol=2,
        retry=Retry(NoBackoff(), 0),
        socket_connect_timeout=_REDIS_SECONDS,
        socket_timeout=_REDIS_SECONDS,
    )
