"""Discovery through the real client, over HTTP, before an API server that misbehaves."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from common.errors import ConfigError
from router.config import RouterConfig
from router.discovery.cluster import connect
from router.discovery.kubernetes import KubernetesDiscovery
from tests.integration.router.support import following, until
from tests.support.kubernetes_api import NAMESPACE, TOKEN, KubernetesApi, endpoint, endpoint_slice
from tests.unit.router.fakes import registry

FIRST, SECOND, THIRD = (endpoint(f"10.0.0.{number}") for number in (1, 2, 3))
ADDRESSES = ("10.0.0.1:50053", "10.0.0.2:50053", "10.0.0.3:50053")


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that discovery meant to wait between tries, each cut short."""
    meant: list[float] = []

    async def wait(seconds: float) -> None:
        meant.append(seconds)
        await asyncio.sleep(0.001)

    monkeypatch.setattr("router.discovery.kubernetes.sleep", wait)
    return meant


async def test_it_lists_the_slices_of_its_namespace_by_label_and_watches_from_there(
    api: KubernetesApi, config: RouterConfig
) -> None:
    api.put(endpoint_slice("verify-a", "verify", [FIRST], port=50052))
    api.put(endpoint_slice("ngram-a", "ngram", [FIRST]))
    api.put(endpoint_slice("ngram-b", "ngram", [SECOND]))
    api.put(endpoint_slice("other", "", [THIRD], metadata={"name": "other", "labels": {"app": "web"}}))
    listed_at = api.version
    async with following(config) as known:
        assert known.addresses("verify") == ["10.0.0.1:50052"]
        assert known.addresses("ngram") == list(ADDRESSES[:2])
        await until(lambda: len(api.watches) == 1)
    [listed], [watched] = api.lists, api.watches
    assert listed.path == f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
    assert listed.authorization == f"bearer {TOKEN}"
    assert listed.query == {"labelSelector": "tandem.io/pool"}
    assert watched.query["labelSelector"] == "tandem.io/pool"
    assert watched.query["resourceVersion"] == listed_at
    assert watched.query["allowWatchBookmarks"].lower() == "true"
    assert 0 < int(watched.query["timeoutSeconds"]) <= 60


async def test_label_selector_and_namespace_are_those_configured(
    api: KubernetesApi, config: RouterConfig
) -> None:
    api.put(
        endpoint_slice("ours", "", [FIRST], metadata={"name": "ours", "labels": {"p": "ngram", "env": "a"}})
    )
    api.put(
        endpoint_slice("theirs", "", [SECOND], metadata={"name": "o", "labels": {"p": "ngram", "env": "b"}})
    )
    selecting = replace(config, kubernetes_pool_label="p", kubernetes_selector="env=a")
    async with following(selecting) as known:
        assert known.addresses("ngram") == [ADDRESSES[0]]
    assert api.lists[0].query["labelSelector"] == "p,env=a"
    async with following(replace(config, kubernetes_namespace="elsewhere"), wait=False):
        await until(lambda: "/namespaces/elsewhere/" in api.asked[-1].path)


async def test_replicas_that_come_turn_unready_terminate_and_go_are_followed(
    api: KubernetesApi, config: RouterConfig
) -> None:
    async with following(config) as known:
        assert known.registry.draft_pools() == []
        api.put(endpoint_slice("a", "ngram", [FIRST]))
        await known.until("ngram", ADDRESSES[0])
        api.put(endpoint_slice("b", "ngram", [SECOND, THIRD]))
        await known.until("ngram", *ADDRESSES)
        api.put(endpoint_slice("b", "ngram", [endpoint("10.0.0.2", ready=False), THIRD]))
        await known.until("ngram", ADDRESSES[0], ADDRESSES[2])
        leaving = endpoint("10.0.0.3", ready=False, serving=True, terminating=True)
        api.put(endpoint_slice("b", "ngram", [SECOND, leaving]))
        await known.until("ngram", ADDRESSES[0], ADDRESSES[1])
        api.delete("a")
        await known.until("ngram", ADDRESSES[1])
        api.delete("b")
        await known.until("ngram")
    assert len(api.lists) == 1


async def test_what_stays_keeps_what_is_known_of_it(api: KubernetesApi, config: RouterConfig) -> None:
    api.put(endpoint_slice("a", "ngram", [FIRST]))
    async with following(config) as known:
        stays = known.registry.find(ADDRESSES[0])
        api.put(endpoint_slice("b", "ngram", [SECOND]))
        await known.until("ngram", *ADDRESSES[:2])
        assert known.registry.find(ADDRESSES[0]) is stays


async def test_after_a_dropped_connection_it_resumes_from_the_last_version_it_saw(
    api: KubernetesApi, config: RouterConfig
) -> None:
    async with following(config) as known:
        api.put(endpoint_slice("a", "ngram", [FIRST]))
        await known.until("ngram", ADDRESSES[0])
        seen = api.version
        api.drop()
        api.put(endpoint_slice("b", "ngram", [SECOND]))
        await known.until("ngram", *ADDRESSES[:2])
    assert len(api.lists) == 1
    assert api.watches[-1].query["resourceVersion"] == seen


async def test_it_resumes_from_a_bookmark(api: KubernetesApi, config: RouterConfig) -> None:
    async with following(config) as known:
        await until(lambda: len(api.watches) == 1)
        api.bookmark()
        bookmarked = api.version
        api.put(endpoint_slice("a", "ngram", [FIRST], metadata={"name": "a", "labels": {"app": "web"}}))
        api.end_watches()
        await until(lambda: api.watches[-1].query["resourceVersion"] == bookmarked)
        assert known.registry.draft_pools() == []
    assert len(api.lists) == 1


@pytest.mark.parametrize("gone_as_status", [False, True])
async def test_a_version_that_is_too_old_makes_it_list_again(
    api: KubernetesApi, config: RouterConfig, gone_as_status: bool
) -> None:
    api.gone_as_status = gone_as_status
    api.put(endpoint_slice("a", "ngram", [FIRST]))
    api.put(endpoint_slice("b", "ngram", [SECOND]))
    async with following(config) as known:
        await until(lambda: len(api.watches) == 1)
        api.drop()
        api.delete("a")
        api.put(endpoint_slice("c", "ngram", [THIRD]))
        api.forget_history()
        await known.until("ngram", ADDRESSES[1], ADDRESSES[2])
        await until(lambda: api.watches[-1].query["resourceVersion"] == api.version)
    assert len(api.lists) == 2


async def test_while_the_api_server_is_away_what_was_last_known_stays_and_tries_grow_rare(
    api: KubernetesApi, config: RouterConfig, pauses: list[float]
) -> None:
    api.put(endpoint_slice("a", "ngram", [FIRST]))
    async with following(config) as known:
        await until(lambda: len(api.watches) == 1)
        api.go_away()
        while len(pauses) < 12:
            assert known.addresses("ngram") == [ADDRESSES[0]]
            await asyncio.sleep(0.001)
        api.put(endpoint_slice("b", "ngram", [SECOND]))
        await api.come_back()
        await known.until("ngram", *ADDRESSES[:2])
    assert 0.1 <= pauses[0] <= 0.2
    assert all(2 <= seconds <= 4 for seconds in pauses[6:12])
    assert pauses[0] < pauses[2] < pauses[4]
    assert len(api.lists) == 1


@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_that_is_busy_is_asked_again_for_the_same_version(
    api: KubernetesApi, config: RouterConfig, status: int
) -> None:
    async with following(config) as known:
        await until(lambda: len(api.watches) == 1)
        api.refusals = [status, status]
        api.end_watches()
        api.put(endpoint_slice("a", "ngram", [FIRST]))
        await known.until("ngram", ADDRESSES[0])
    assert api.refusals == []
    assert len(api.lists) == 1


@pytest.mark.parametrize("status", [400, 403, 500])
async def test_any_other_refusal_of_a_version_makes_it_list_again(
    api: KubernetesApi, config: RouterConfig, status: int
) -> None:
    async with following(config) as known:
        await until(lambda: len(api.watches) == 1)
        api.refusals = [status]
        api.end_watches()
        api.put(endpoint_slice("a", "ngram", [FIRST]))
        await known.until("ngram", ADDRESSES[0])
        await until(lambda: len(api.lists) == 2)


@pytest.mark.parametrize(
    "line", [b"{\n", b"[]\n", b'{"type": "ADDED"}\n', b'{"type": "ERROR", "object": {}}\n']
)
async def test_what_makes_no_sense_makes_it_list_again(
    api: KubernetesApi, config: RouterConfig, line: bytes
) -> None:
    async with following(config) as known:
        await until(lambda: len(api.watches) == 1)
        api.say(line)
        await until(lambda: len(api.lists) == 2)
        api.put(endpoint_slice("a", "ngram", [FIRST]))
        await known.until("ngram", ADDRESSES[0])


async def test_it_is_in_step_only_once_it_could_list(api: KubernetesApi, config: RouterConfig) -> None:
    api.put(endpoint_slice("a", "ngram", [FIRST]))
    api.refusals = [403, 500, 503]
    async with following(config) as known:
        assert known.addresses("ngram") == [ADDRESSES[0]]
    assert len(api.lists) == 4


async def test_a_server_that_ends_every_watch_at_once_is_not_asked_again_without_a_pause(
    api: KubernetesApi, config: RouterConfig, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.discovery.kubernetes._SHORTEST_WATCH_SECONDS", 3600)
    async with following(config):
        for number in (1, 2, 3):
            await until(lambda count=number: len(api.watches) == count)  # type: ignore[misc]
            api.end_watches()
        await until(lambda: len(api.watches) == 4)
    assert len(pauses) == 3
    assert pauses[0] < pauses[2]
    assert len(api.lists) == 1


async def test_a_watch_whose_time_is_over_goes_on_from_where_it_was(
    api: KubernetesApi, config: RouterConfig
) -> None:
    known = registry()
    async with connect(config.kubernetes_config, "", "tandem.io/pool") as cluster:
        running = asyncio.create_task(
            KubernetesDiscovery(known, cluster, "tandem.io/pool", watch_seconds=1).run()
        )
        await until(lambda: len(api.watches) == 3)
        running.cancel()
        await asyncio.wait([running])
    assert {watched.query["timeoutSeconds"] for watched in api.watches} == {"1"}
    assert len(api.lists) == 1


async def test_a_connection_on_which_nothing_comes_any_more_is_given_up(
    api: KubernetesApi, config: RouterConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.discovery.cluster._ANSWER_SECONDS", 1.0)
    api.endless = True
    api.put(endpoint_slice("a", "ngram", [FIRST]))
    known = registry()
    async with connect(config.kubernetes_config, "", "tandem.io/pool") as cluster:
        running = asyncio.create_task(
            KubernetesDiscovery(known, cluster, "tandem.io/pool", watch_seconds=1).run()
        )
        await until(lambda: len(api.watches) == 2)
        assert known.find(ADDRESSES[0])
        running.cancel()
        await asyncio.wait([running])
    assert len({watched.query["resourceVersion"] for watched in api.watches}) == 1


async def test_pools_that_the_configuration_names_come_first(
    api: KubernetesApi, config: RouterConfig
) -> None:
    api.put(endpoint_slice("a", "eagle", [FIRST]))
    api.put(endpoint_slice("b", "ngram", [SECOND]))
    async with following(replace(config, drafts={"ngram": (), "model": ()})) as known:
        assert known.registry.draft_pools() == ["ngram", "model", "eagle"]


async def test_without_a_cluster_it_says_which_variable_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no.yaml").write_text("{")
    for path in (tmp_path / "missing", tmp_path / "no.yaml", tmp_path):
        with pytest.raises(ConfigError) as caught:
            async with connect(str(path), "", ""):
                pass
        assert caught.value.field == "kubernetes_config"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ConfigError, match="token"):
        async with connect("", "", ""):
            pass
