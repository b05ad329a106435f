from __future__ import annotations

import asyncio

import pytest

from router.breaker import Outcome, State
from router.clients import StatusClient
from router.poller import Poller
from router.registry import Endpoint, Registry, Report
from tests.unit.router.fakes import Clock, FakeStatusClient, endpoint, eventually, registry

READY = Report(ready=True, load=2, capacity=8, fingerprint="llama")


def poller(known: Registry, client: StatusClient) -> Poller:
    return Poller(known, client, interval_seconds=0.001)


async def asked(client: FakeStatusClient, address: str, times: int = 1) -> None:
    """Returns when the client was asked for an address so often."""

    async def check() -> bool:
        return client.calls.count(address) >= times

    await eventually(check)


async def test_a_round_brings_every_endpoint_up_to_date() -> None:
    known = registry(["v:1"], ngram=["n:1"])
    await poller(known, FakeStatusClient({"v:1": READY, "n:1": Report()})).poll_all()
    assert endpoint(known, "v:1").report == READY
    assert endpoint(known, "v:1").available
    assert not endpoint(known, "n:1").available
    assert endpoint(known, "n:1").breaker.consecutive_failures == 0


async def test_an_endpoint_stays_in_use_until_its_breaker_opens() -> None:
    known = registry(["v:1"], failures=2)
    client = FakeStatusClient({"v:1": READY})
    await poller(known, client).poll_all()
    client.reports.clear()
    await poller(known, client).poll_all()
    assert endpoint(known, "v:1").available
    await poller(known, client).poll_all()
    assert not endpoint(known, "v:1").available


async def test_an_open_breaker_stops_the_polls_and_one_probe_brings_the_endpoint_back() -> None:
    clock = Clock()
    known = registry(["v:1"], clock, failures=1)
    client = FakeStatusClient()
    subject = poller(known, client)
    await subject.poll_all()
    await subject.poll_all()
    assert client.calls == ["v:1"]
    clock.now += 2
    client.reports["v:1"] = READY
    client.hanging["v:1"] = asyncio.Event()
    probe = asyncio.create_task(subject.poll_all())
    await asyncio.sleep(0)
    await asyncio.wait_for(subject.poll_all(), 1)
    client.hanging["v:1"].set()
    await probe
    assert client.calls == ["v:1", "v:1"]
    assert endpoint(known, "v:1").breaker.state is State.CLOSED
    assert endpoint(known, "v:1").available


async def test_plans_made_before_a_poll_are_in_its_report_and_those_made_during_it_are_not() -> None:
    known = registry(["v:1"])
    client = FakeStatusClient({"v:1": READY}, hanging={"v:1": asyncio.Event()})
    subject = endpoint(known, "v:1")
    subject.planned = 3
    polling = asyncio.create_task(poller(known, client).poll_all())
    await asked(client, "v:1")
    subject.planned += 2
    client.hanging["v:1"].set()
    await polling
    assert subject.load == READY.load + 2


async def test_an_endpoint_that_hangs_is_asked_once_and_delays_no_other() -> None:
    known = registry(["v:1"], ngram=["n:1"])
    client = FakeStatusClient({"v:1": READY}, hanging={"n:1": asyncio.Event()})
    running = asyncio.create_task(poller(known, client).run())
    await asked(client, "v:1", times=5)
    assert client.calls.count("n:1") == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_endpoints_that_appear_later_are_polled_too() -> None:
    known = registry(["v:1"])
    client = FakeStatusClient({"v:1": READY, "n:1": READY})
    running = asyncio.create_task(poller(known, client).run())
    known.replace("ngram", ["n:1"])
    await asked(client, "n:1", times=2)
    assert endpoint(known, "n:1").available
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_fault_of_the_router_itself_ends_the_polling_instead_of_going_unnoticed() -> None:
    class Faulty:
        async def status(self, endpoint: Endpoint) -> Report:
            raise ZeroDivisionError

        async def forget(self, address: str) -> None:
            raise NotImplementedError

    with pytest.raises(ExceptionGroup) as caught:
        await poller(registry(["v:1"]), Faulty()).run()
    assert caught.group_contains(ZeroDivisionError)


async def test_an_endpoint_that_appears_is_polled_at_once() -> None:
    known = registry(["v:1"])
    client = FakeStatusClient({"v:1": READY, "n:1": READY})
    running = asyncio.create_task(Poller(known, client, interval_seconds=3600).run())
    await asked(client, "v:1")
    known.replace("ngram", ["n:1"])
    await asked(client, "n:1")
    assert endpoint(known, "n:1").available
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_is_kept_for_an_address_goes_when_it_left_its_last_pool() -> None:
    known = registry(ngram=["a:1", "b:1", "c:1"], model=["b:1"])
    client = FakeStatusClient()
    running = asyncio.create_task(poller(known, client).run())
    known.replace("ngram", ["c:1"])

    async def forgotten() -> bool:
        return client.forgotten == ["a:1"]

    await eventually(forgotten)
    known.replace("model", [])
    client.forgotten.clear()

    async def forgotten_too() -> bool:
        return client.forgotten == ["b:1"]

    await eventually(forgotten_too)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_polls_that_take_too_long_eject_an_endpoint_that_answers() -> None:
    clock = Clock()

    class Slow(FakeStatusClient):
        async def status(self, endpoint: Endpoint) -> Report:
            clock.now += 0.6 if endpoint.address == "n:1" else 0.4
            return await super().status(endpoint)

    known = registry(ngram=["n:1", "n:2"], clock=clock)
    subject = Poller(known, Slow({"n:1": READY, "n:2": READY}), 60, clock)
    for address in ("n:1", "n:2"):
        endpoint(known, address).report = READY
    for _ in range(2):
        for each in known:
            await subject._poll(each)
    assert [each.available for each in known] == [False, True]


async def test_when_the_last_other_replica_stops_being_ready_an_ejected_one_is_taken_back() -> None:
    known = registry(ngram=["n:1", "n:2"])
    client = FakeStatusClient({"n:1": READY, "n:2": READY})
    subject = poller(known, client)
    await subject.poll_all()
    for _ in range(2):
        endpoint(known, "n:1").breaker.record(Outcome.BAD_BLOCK)
    assert not endpoint(known, "n:1").available
    client.reports["n:2"] = Report(ready=False)
    await subject.poll_all()
    assert endpoint(known, "n:1").available
