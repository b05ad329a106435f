"""Samples and requests for training, from a real server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from common import streams
from common.samples import Sample, encode_sample
from router.store import RETRAIN
from tests.support.valkey import Valkey, require_valkey
from tests.unit.training.online.records import sample
from training.online import metrics
from training.online.buffer import Buffer
from training.online.collector import Collector, connect
from training.online.trigger import Reason, Requests, Thresholds, due

SIZE = 64


@pytest.fixture
async def client() -> AsyncGenerator[Any, None]:
    require_valkey()
    async with Valkey() as server:
        connected = connect(server.url)
        yield connected
        connected.close()


@pytest.fixture
def buffer(tmp_path: Path) -> Buffer:
    return Buffer(tmp_path, 1000)


def collector(client: Any, buffer: Buffer) -> Collector:
    return Collector(client, "worker", buffer, "f", SIZE)


def publish(client: Any, *samples: Sample) -> None:
    for each in samples:
        client.xadd(streams.SAMPLES, encode_sample(each))


def all_taken(reader: Collector) -> int:
    counts = [reader.take(1) for _ in range(4)]
    return sum(counts)


def fates() -> dict[str, float]:
    return {fate: metrics.SAMPLES.labels(fate)._value.get() for fate in ("kept", "malformed", "foreign")}


async def test_what_came_before_and_after_the_worker_is_kept_and_acknowledged(
    client: Any, buffer: Buffer
) -> None:
    publish(client, sample(0))
    reader = collector(client, buffer)
    assert all_taken(reader) == 1
    publish(client, sample(1), sample(2))
    assert all_taken(reader) == 2
    assert buffer.end == 3
    assert client.xpending(streams.SAMPLES, streams.DISTIL_GROUP)["pending"] == 0


async def test_what_was_read_and_not_put_on_disk_comes_again(
    client: Any, buffer: Buffer, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(client, sample(0))

    def full(_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(buffer, "add", full)
        reader = collector(client, buffer)
        reader.take(1)
        with pytest.raises(OSError, match="no space left"):
            reader.take(1)
    assert all_taken(collector(client, buffer)) == 1
    assert buffer.end == 1


async def test_what_is_no_sample_or_of_another_target_is_left_aside_and_counted(
    client: Any, buffer: Buffer
) -> None:
    before = fates()
    client.xadd(streams.SAMPLES, {"payload": "hello"})
    publish(client, sample(0, fingerprint="theirs"), sample(1, answer=(7, SIZE)), sample(2))
    assert all_taken(collector(client, buffer)) == 4
    now = fates()
    assert {fate: now[fate] - before[fate] for fate in now} == {"kept": 1, "malformed": 1, "foreign": 2}
    assert buffer.end == 1
    assert client.xpending(streams.SAMPLES, streams.DISTIL_GROUP)["pending"] == 0


def ask(client: Any, prompt_class: str, pool: str = "eagle") -> None:
    client.xadd(RETRAIN, {"prompt_class": prompt_class, "pool": pool, "reason": "acceptance is low"})


async def test_a_request_stays_open_until_it_is_answered(client: Any) -> None:
    requests = Requests(client, "worker", "eagle")
    assert requests.open() == {}
    ask(client, "code")
    ask(client, "code")
    ask(client, "chat", pool="another")
    for each in (requests, requests, Requests(client, "worker", "eagle")):
        found = each.open()
        assert list(found) == ["code"]
        assert found["code"].said == "asked for code: acceptance is low"
    requests.answered(found["code"])
    assert requests.open() == {}
    assert client.xpending(RETRAIN, streams.DISTIL_GROUP)["pending"] == 0


async def test_a_worker_for_all_pools_hears_every_request(client: Any) -> None:
    ask(client, "code")
    ask(client, "chat", pool="another")
    assert set(Requests(client, "worker", "").open()) == {"code", "chat"}


THRESHOLDS = Thresholds(every=100, least=20)
ASKED = {"code": Reason("code", "asked", (b"1-1",))}


def due_for(fresh: int, code: int, *, asked: bool) -> str | None:
    counts = {"code": code}
    found = due(fresh, lambda name: counts.get(name, 0), ASKED if asked else {}, THRESHOLDS)
    return found.prompt_class if found else None


def test_a_round_is_due_after_so_many_samples_or_when_one_is_asked_for_and_there_are_some() -> None:
    assert due_for(99, 99, asked=False) is None
    assert due_for(100, 0, asked=False) == ""
    assert due_for(0, 19, asked=True) is None
    assert due_for(0, 20, asked=True) == "code"
    assert due_for(100, 19, asked=True) == ""
