"""A whole router under Kubernetes: who is planned when replicas come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import grpc.aio
from prometheus_client import CollectorRegistry

from common import rpc
from common.codec import plan_from_proto, route_to_proto
from common.types import Plan, RouteRequest
from protos.tandem.v1.router_pb2_grpc import RouterServiceStub
from router.config import RouterConfig
from router.server import RouterServer
from tests.integration.router.support import until
from tests.support.kubernetes_api import Json, KubernetesApi, endpoint, endpoint_slice
from tests.unit.router.fakes import FakeDraft, FakeVerify, eventually, listening

UPTAKE_SECONDS = 5.0


@asynccontextmanager
async def running(config: RouterConfig) -> AsyncIterator[grpc.aio.Channel]:
    """A router that is ready."""
    stopping = asyncio.Event()
    server = RouterServer(config, CollectorRegistry())
    address = f"127.0.0.1:{server.port}"
    life = asyncio.create_task(server.run(stopping))
    try:
        await eventually(lambda: rpc.healthy(address))
        async with rpc.channel(address) as channel:
            yield channel
    finally:
        stopping.set()
        await asyncio.wait_for(life, 30)


async def route(router: grpc.aio.Channel) -> Plan:
    request = RouteRequest("r1", "model", "Who wrote Faust?", 16)
    return plan_from_proto(await RouterServiceStub(router).Route(route_to_proto(request)))


async def planned(router: grpc.aio.Channel, count: int = 20) -> set[str]:
    """The addresses that so many plans name."""
    plans = [await route(router) for _ in range(count)]
    drafts = {draft.address for plan in plans for draft in plan.drafts}
    return drafts | {plan.verify_address for plan in plans}


def slice_of(pool: str, address: str, **conditions: bool) -> Json:
    """A replica of its own slice, as each of ours has a port of its own."""
    host, port = address.split(":")
    return endpoint_slice(f"{pool}-{port}", pool, [endpoint(host, **conditions)], port=int(port))


async def test_a_new_replica_is_planned_in_time_and_a_removed_one_never_again(
    api: KubernetesApi, config: RouterConfig
) -> None:
    rarely = replace(config, poll_seconds=3600)  # what is planned does not wait for the next round of polls
    async with (
        listening(FakeVerify()) as old_verify,
        listening(FakeVerify()) as new_verify,
        listening(FakeDraft()) as old_draft,
        listening(FakeDraft()) as new_draft,
    ):
        api.put(slice_of("verify", old_verify))
        api.put(slice_of("ngram", old_draft))
        async with running(rarely) as router:
            assert await planned(router) == {old_verify, old_draft}

            async with asyncio.timeout(UPTAKE_SECONDS):
                api.put(slice_of("verify", new_verify))
                api.put(slice_of("ngram", new_draft))
                while await planned(router) != {old_verify, old_draft, new_verify, new_draft}:
                    await asyncio.sleep(0.01)

            removed = f"ngram-{old_draft.split(':')[1]}"
            api.delete(removed)
            api.put(slice_of("verify", old_verify, ready=False, serving=True, terminating=True))
            api.bookmark()
            seen = api.version
            api.end_watches()
            await until(lambda: api.watches[-1].query["resourceVersion"] == seen)
            assert await planned(router, 100) == {new_verify, new_draft}


async def test_plans_go_on_while_the_api_server_is_away(api: KubernetesApi, config: RouterConfig) -> None:
    async with listening(FakeVerify()) as verify, listening(FakeDraft()) as draft:
        api.put(slice_of("verify", verify))
        api.put(slice_of("ngram", draft))
        async with running(config) as router:
            api.go_away()
            assert await planned(router) == {verify, draft}


async def test_a_router_that_cannot_list_is_not_ready_and_stops_when_told_to(
    api: KubernetesApi, config: RouterConfig
) -> None:
    api.go_away()
    stopping = asyncio.Event()
    server = RouterServer(config, CollectorRegistry())
    life = asyncio.create_task(server.run(stopping))
    await asyncio.sleep(0.3)  # time enough for several tries
    assert not await rpc.healthy(f"127.0.0.1:{server.port}")
    await api.come_back()
    await eventually(lambda: rpc.healthy(f"127.0.0.1:{server.port}"))
    api.go_away()
    stopping.set()
    await asyncio.wait_for(life, 30)


async def test_classes_may_name_pools_before_they_are_seen(api: KubernetesApi, config: RouterConfig) -> None:
    later = replace(config, classes={"short_qa": ("eagle",)})
    async with listening(FakeVerify()) as verify, listening(FakeDraft()) as draft:
        api.put(slice_of("verify", verify))
        api.put(slice_of("ngram", draft))
        async with running(later) as router:
            assert (await route(router)).drafts == ()
            api.put(slice_of("eagle", draft))

            async def drafted() -> bool:
                return [each.name for each in (await route(router)).drafts] == ["eagle"]

            await eventually(drafted)
