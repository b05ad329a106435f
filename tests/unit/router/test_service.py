"""The router as a whole, over real gRPC, before services that hang, die and come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc.aio
import pytest
from prometheus_client import CollectorRegistry

from common import rpc
from common.codec import plan_from_proto, route_to_proto
from common.types import Plan, RouteRequest
from protos.tandem.v1 import router_pb2, types_pb2
from protos.tandem.v1.router_pb2_grpc import RouterServiceStub
from router.config import RouterConfig
from router.server import RouterServer
from tests.unit.router.fakes import FakeDraft, FakeVerify, eventually, free_port, listening

NOBODY = "127.0.0.1:1"


@dataclass
class Running:
    """A router and the ways to ask it."""

    channel: grpc.aio.Channel
    metrics: CollectorRegistry

    async def route(self, head: str = "Who wrote Faust?", speculation_disabled: bool = False) -> Plan:
        request = RouteRequest("r1", "model", head, len(head), speculation_disabled)
        return plan_from_proto(await RouterServiceStub(self.channel).Route(route_to_proto(request)))

    async def status(self) -> router_pb2.RouterStatus:
        return await RouterServiceStub(self.channel).Status(types_pb2.StatusRequest())

    async def until(self, holds: Callable[[router_pb2.RouterStatus], bool]) -> None:
        async def check() -> bool:
            return holds(await self.status())

        await eventually(check)


@asynccontextmanager
async def running(
    verify: Sequence[str], drafts: Mapping[str, Sequence[str]], poll_timeout_seconds: float = 5.0
) -> AsyncIterator[Running]:
    config = RouterConfig(
        verify=tuple(verify),
        drafts={pool: tuple(addresses) for pool, addresses in drafts.items()},
        host="127.0.0.1",
        port=0,
        poll_seconds=0.02,
        poll_timeout_seconds=poll_timeout_seconds,
        breaker_failures=2,
        breaker_open_seconds=0.05,
        breaker_max_open_seconds=0.1,
        drain_seconds=0.1,
    )
    metrics, stopping = CollectorRegistry(), asyncio.Event()
    server = RouterServer(config, metrics)
    address = f"127.0.0.1:{server.port}"
    life = asyncio.create_task(server.run(stopping))
    try:
        await eventually(lambda: rpc.healthy(address))
        async with rpc.channel(address) as channel:
            yield Running(channel, metrics)
    finally:
        stopping.set()
        await life


async def test_a_route_names_the_class_the_verify_replica_and_the_drafts() -> None:
    async with (
        listening(FakeVerify(running=3, waiting=1, max_running=32)) as verify,
        listening(FakeDraft(sessions=2)) as ngram,
        listening(FakeDraft()) as model,
        running([verify], {"ngram": [ngram], "model": [model]}) as router,
    ):
        plan = await router.route("Who wrote Faust?")
    assert plan.prompt_class == "short_qa"
    assert plan.verify_address == verify
    assert [(draft.name, draft.address) for draft in plan.drafts] == [("ngram", ngram), ("model", model)]
    assert plan.reason.startswith("class short_qa ")
    assert plan.reason.endswith(
        f"; verify {verify} has 4 of 32 in flight; draft ngram@{ngram} has 2 sessions, then model@{model}"
    )
    assert router.metrics.get_sample_value("tandem_router_decision_seconds_count") == 1


async def test_a_draft_that_hangs_costs_neither_readiness_nor_a_place_in_the_plan() -> None:
    hanging = FakeDraft()
    hanging.hang = True
    async with (
        listening(FakeVerify()) as verify,
        listening(hanging) as slow,
        listening(FakeDraft()) as quick,
        running([verify], {"ngram": [slow, quick]}, poll_timeout_seconds=0.2) as router,
    ):
        await router.until(lambda status: status.ready and status.drafts[1].ready)
        plan = await router.route()
    assert [draft.address for draft in plan.drafts] == [quick]


async def test_traffic_leaves_a_draft_that_dies_and_returns_to_it_when_it_is_back() -> None:
    port = free_port()
    draft = f"127.0.0.1:{port}"
    async with listening(FakeVerify()) as verify, running([verify], {"ngram": [draft]}) as router:
        for _ in range(2):
            async with listening(FakeDraft(), port):
                await router.until(lambda status: status.drafts[0].ready)
                assert [each.address for each in (await router.route()).drafts] == [draft]
            await router.until(lambda status: not status.drafts[0].ready)
            plan = await router.route()
            assert plan.drafts == ()
            assert plan.reason.endswith("no draft available in ngram: plain decoding")


async def test_traffic_moves_to_the_verify_replica_that_is_left() -> None:
    port = free_port()
    mortal = f"127.0.0.1:{port}"
    async with listening(FakeVerify(running=9)) as survivor, running([survivor, mortal], {}) as router:
        async with listening(FakeVerify(), port):
            await router.until(lambda status: status.verify[1].ready)
            assert (await router.route()).verify_address == mortal

        async def moved() -> bool:
            return (await router.route()).verify_address == survivor

        await eventually(moved)


async def test_while_no_verify_replica_is_ready_a_route_is_unavailable_and_says_why() -> None:
    loading = FakeVerify(ready=False)
    async with (
        listening(loading) as verify,
        running([verify, NOBODY], {}) as router,
    ):
        assert not (await router.status()).ready
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await router.route()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert caught.value.details() == "no verify replica is ready, of 2 known"
        loading.set(ready=True)
        await router.until(lambda status: status.ready)
        assert (await router.route()).verify_address == verify


async def test_a_request_without_speculation_is_planned_without_drafts() -> None:
    async with (
        listening(FakeVerify()) as verify,
        listening(FakeDraft()) as draft,
        running([verify], {"ngram": [draft]}) as router,
    ):
        plan = await router.route(speculation_disabled=True)
    assert plan.drafts == ()


async def test_a_draft_of_another_vocabulary_is_not_planned() -> None:
    async with (
        listening(FakeVerify(fingerprint="llama")) as verify,
        listening(FakeDraft(fingerprint="qwen")) as stranger,
        listening(FakeDraft(fingerprint="llama")) as draft,
        running([verify], {"ngram": [stranger], "model": [draft]}) as router,
    ):
        plan = await router.route()
    assert [each.address for each in plan.drafts] == [draft]


async def test_the_status_lists_every_endpoint_with_load_and_breaker() -> None:
    async with (
        listening(FakeVerify(running=1)) as verify,
        running([verify], {"ngram": [NOBODY]}) as router,
    ):
        await router.until(lambda status: status.drafts[0].breaker != "closed")
        status = await router.status()
    assert status.ready
    [replica], [draft] = status.verify, status.drafts
    assert (replica.pool, replica.address, replica.ready, replica.load) == ("verify", verify, True, 1)
    assert replica.breaker == "closed"
    assert (draft.pool, draft.address, draft.ready) == ("ngram", NOBODY, False)
    assert draft.breaker in ("open", "half_open")
