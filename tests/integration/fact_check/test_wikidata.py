from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace

import httpx
import pytest
from prometheus_client import REGISTRY
from redis.asyncio import Redis

from common.errors import ConfigError
from fact_check_service.checks.base import Context
from fact_check_service.checks.wikidata import WikidataCheck, make
from fact_check_service.config import Config
from fact_check_service.wikidata.transport import GuardedTransport, Refused
from tests.integration.fact_check.wikidata_server import Behaviour, WikidataServer, answering
from tests.support.valkey import Valkey

RIGHT, WRONG = (
    "Berlin has a population of 3.7 million people.",
    "Berlin has a population of 9 million people.",
)


@pytest.fixture
async def server() -> AsyncIterator[WikidataServer]:
    async with WikidataServer() as started:
        yield started


@pytest.fixture
def config(server: WikidataServer, valkey: Valkey) -> Config:
    return Config(
        redis_url=valkey.url,
        wikidata_url=server.url,
        wikidata_hosts=("127.0.0.1",),
        wikidata_private=True,
        check_ms=2_000,
        wikidata_timeout_ms=300,
        wikidata_max_bytes=20_000,
    )


@pytest.fixture
async def start(config: Config) -> AsyncIterator[Callable[..., WikidataCheck]]:
    checks: list[WikidataCheck] = []

    def starting(**settings: object) -> WikidataCheck:
        checks.append(make(replace(config, **settings)))  # type: ignore[arg-type]
        return checks[-1]

    yield starting
    for check in checks:
        await check.close()


Start = Callable[..., WikidataCheck]


async def verdicts(check: WikidataCheck, text: str) -> list[str]:
    return [finding.verdict.value for finding in await check.judge(Context(text))]


def counted(outcome: str) -> float:
    return REGISTRY.get_sample_value("tandem_fact_check_lookups_total", {"outcome": outcome}) or 0.0


async def test_claims_are_compared_with_the_statements_of_the_best_rank(start: Start) -> None:
    check = start()
    assert await verdicts(check, RIGHT) == ["supported"]
    assert await verdicts(check, "Berlin has a population of 1 million people.") == ["contradicted"]
    assert await verdicts(check, "Berlin has an area of 344 square miles.") == ["supported"]
    assert await verdicts(check, "柏林的面积为500平方公里。") == ["contradicted"]
    found = await check.judge(Context(WRONG))
    assert found[0].evidence == "Berlin, population: 3677472 (Wikidata Q64, P1082)"


async def test_what_names_no_property_is_never_looked_up(start: Start, server: WikidataServer) -> None:
    assert await verdicts(start(), "Berlin is 50 km from here, and weighs 50 kg.") == []
    assert server.asked == []


async def test_an_item_is_asked_for_once_by_all_workers(
    start: Start, server: WikidataServer, redis: Redis
) -> None:
    before = counted("cached")
    assert await verdicts(start(), RIGHT) == ["supported"]
    assert await verdicts(start(), WRONG) == ["contradicted"]
    assert [query["action"] for query in server.asked] == ["wbsearchentities", "wbgetentities"]
    assert counted("cached") == before + 1
    assert 0 < await redis.ttl("tandem:wikidata:1:en:berlin") <= Config().wikidata_cache_seconds


async def test_that_a_name_has_no_item_is_kept_for_a_shorter_time(
    start: Start, server: WikidataServer, redis: Redis
) -> None:
    check = start()
    for _ in range(2):
        assert await verdicts(check, "Atlantis has a population of 5 million people.") == []
    assert len(server.asked) == 1
    assert 0 < await redis.ttl("tandem:wikidata:1:en:atlantis") <= Config().wikidata_negative_seconds


@pytest.mark.parametrize(
    "behaviour",
    [
        answering(429, Retry_After="0"),
        answering(429),
        answering(500),
        answering(503),
        answering(200, b'{"error": {"code": "maxlag"}}'),
        answering(200, b"{}", seconds=1.0),
    ],
    ids=["429 at once", "429", "500", "503", "maxlag", "slow"],
)
async def test_what_may_pass_is_asked_again(
    start: Start, server: WikidataServer, behaviour: Behaviour
) -> None:
    server.behaviours = [behaviour]
    assert await verdicts(start(), RIGHT) == ["supported"]
    assert len(server.asked) == 3


async def test_the_server_is_left_alone_for_as_long_as_it_asks(start: Start, server: WikidataServer) -> None:
    server.behaviours = [answering(429, Retry_After="1")]
    started = time.monotonic()
    assert await verdicts(start(), RIGHT) == ["supported"]
    assert time.monotonic() - started >= 1.0


async def test_a_wait_past_the_time_box_is_no_wait_and_no_further_request(
    start: Start, server: WikidataServer
) -> None:
    server.behaviours = [answering(429, Retry_After="60")]
    check, before, started = start(), counted("throttled"), time.monotonic()
    assert await verdicts(check, RIGHT) == []
    assert await verdicts(check, RIGHT) == []
    assert time.monotonic() - started < 1.0
    assert len(server.asked) == 1
    assert counted("throttled") == before + 2


@pytest.mark.parametrize(
    "behaviour",
    [
        answering(302, Location="http://127.0.0.1:1/"),
        answering(404),
        answering(200, b"<html>"),
        answering(200, b"[]"),
        answering(200, b'{"search": 5}'),
        answering(200, b"[" * 15_000),
        answering(200, b" " * 20_001),
        answering(200, b"{}", Content_Encoding="gzip"),
        answering(200, b'{"error": {"code": "internal"}}'),
    ],
    ids=["redirect", "404", "html", "list", "wrong", "deep", "huge", "encoded", "error"],
)
async def test_a_bad_answer_is_no_opinion_is_counted_and_not_kept(
    start: Start, server: WikidataServer, behaviour: Behaviour
) -> None:
    server.behaviours = [behaviour]
    check, before = start(), counted("failed")
    assert await verdicts(check, RIGHT) == []
    assert len(server.asked) == 1
    assert counted("failed") == before + 1
    assert await verdicts(check, RIGHT) == ["supported"]


async def test_a_server_that_never_answers_takes_no_longer_than_the_time_box(
    start: Start, server: WikidataServer
) -> None:
    server.behaviours = [answering(200, b"{}", seconds=3.0)] * 10
    check, before, started = start(check_ms=500), counted("late"), time.monotonic()
    assert await verdicts(check, RIGHT) == []
    assert time.monotonic() - started < 0.8
    assert counted("late") == before + 1


async def test_without_redis_everything_is_asked_for(start: Start, valkey: Valkey) -> None:
    await valkey.kill()
    assert await verdicts(start(), RIGHT) == ["supported"]


async def test_without_a_server_there_is_no_opinion(start: Start) -> None:
    before = counted("failed")
    assert await verdicts(start(wikidata_url="http://127.0.0.1:1/", check_ms=300), RIGHT) == []
    assert counted("failed") == before + 1


async def test_a_private_address_is_refused(start: Start, server: WikidataServer) -> None:
    before = counted("refused")
    assert await verdicts(start(wikidata_private=False), RIGHT) == []
    assert counted("refused") == before + 1
    assert server.asked == []


def test_a_host_that_is_not_allowed_is_an_error_of_the_variable(config: Config) -> None:
    with pytest.raises(ConfigError) as caught:
        make(replace(config, wikidata_hosts=("www.wikidata.org",)))
    assert caught.value.field == "TANDEM_FACT_CHECK_WIKIDATA_URL"


def resolving(*answers: Sequence[str]) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    left = list(answers)

    async def resolve(host: str, port: int) -> Sequence[str]:
        return left.pop(0)

    return resolve


async def test_the_address_that_was_checked_is_connected_to_under_the_name(server: WikidataServer) -> None:
    """The one answer of the resolver is used up: a second question would raise."""
    transport = GuardedTransport({"wiki.test"}, private=True, resolve=resolving(["127.0.0.1"]))
    async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
        answer = await client.get(
            f"http://wiki.test:{server.port}/w/api.php",
            params={"action": "wbsearchentities", "search": "x", "language": "en"},
        )
    assert answer.json() == {"search": []}
    assert server.hosts == [f"wiki.test:{server.port}"]


async def test_a_name_that_turns_to_a_private_address_is_refused(server: WikidataServer) -> None:
    addresses = resolving(["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["::ffff:127.0.0.1"])
    transport = GuardedTransport({"wiki.test"}, resolve=addresses)
    async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
        for _ in range(3):
            with pytest.raises(Refused):
                await client.get(f"http://wiki.test:{server.port}/")
        with pytest.raises(Refused):
            await client.get(f"http://other.test:{server.port}/")
    assert server.asked == []


async def test_a_proxy_of_the_environment_is_not_used(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert await verdicts(start(), RIGHT) == ["supported"]
