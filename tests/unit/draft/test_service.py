"""The draft stream over a real connection: sessions, refusals, and the end of streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from common import rpc
from common.draft_types import Close, Proposed, Refused
from common.errors import InvalidRequest
from common.types import SamplingParams
from protos.tandem.v1 import draft_pb2
from tests.unit.draft.fakes import PATIENCE_SECONDS, Replica, ScriptedSource, Service, connected, serving
from tests.unit.draft.sessions import commitment, opening

MALFORMED = draft_pb2.SessionUpdate(session_id="s", open=draft_pb2.Open())


@pytest.fixture
def source() -> ScriptedSource:
    return ScriptedSource()


@pytest.fixture
async def service(source: ScriptedSource) -> AsyncIterator[Service]:
    async with serving(source, max_sessions=4) as running:
        yield running


@pytest.fixture
async def replica(service: Service) -> AsyncIterator[Replica]:
    async with connected(service) as stream:
        yield stream


async def refusal(replica: Replica) -> Refused:
    answer = await replica.answer()
    assert isinstance(answer, Refused)
    return answer


async def test_a_session_opens_is_committed_to_and_closes(replica: Replica, service: Service) -> None:
    await replica.send(opening(tokens=[1, 2, 3]))
    first = await replica.block()
    assert (first.base_length, first.token_ids) == (3, (4, 5, 6, 7))
    await replica.send(
        commitment(base_length=3, block_id=first.block_id, accepted=2, tokens=[9], block_size=2)
    )
    second = await replica.block()
    assert (second.base_length, second.token_ids) == (6, (10, 11))
    await replica.send(Close("s"))
    await service.holds(sessions=0)


async def test_a_block_says_where_it_comes_from_and_how_long_it_took(replica: Replica) -> None:
    await replica.send(opening())
    block = await replica.block()
    assert (block.source, block.model_version) == ("scripted", "v7")
    assert 0 < block.drafting_seconds < PATIENCE_SECONDS


async def test_many_sessions_in_one_message_are_drafted_in_one_call(
    replica: Replica, source: ScriptedSource
) -> None:
    await replica.send(*(opening(name) for name in "abcd"))
    assert [answer.session_id for answer in await replica.message()] == ["a", "b", "c", "d"]
    assert source.rounds == [["a", "b", "c", "d"]]


@pytest.mark.parametrize(
    "update", [opening(fingerprint="theirs"), opening(vocabulary_size=99)], ids=["fingerprint", "size"]
)
async def test_a_target_of_another_vocabulary_is_refused_and_told_both(
    replica: Replica, service: Service, update: Any
) -> None:
    await replica.send(update)
    refused = await refusal(replica)
    assert refused.code == "fingerprint_mismatch"
    for part in (update.fingerprint, str(update.vocabulary_size), "ours", "64"):
        assert part in refused.message
    assert service.engine.num_sessions == 0


@pytest.mark.parametrize(
    ("update", "word"),
    [
        (opening(tokens=[]), "token_ids"),
        (opening(tokens=[1] * 129), "token_ids"),
        (opening(tokens=[1, 64]), "token_ids"),
        (opening(tree_width=9), "tree_width"),
        (opening(tree_width=2, publish=True), "chains"),
        (opening(hidden_layers=(2,)), "hidden_size"),
        (opening(tenant="t" * 65), "tenant"),
        (opening(sampling=SamplingParams(logit_bias={64: 1.0})), "logit_bias"),
    ],
    ids=[
        "no tokens",
        "too long",
        "unknown token",
        "too wide",
        "published tree",
        "hidden states",
        "tenant of too many letters",
        "bias of an unknown token",
    ],
)
async def test_what_this_draft_cannot_serve_is_refused(
    replica: Replica, service: Service, update: Any, word: str
) -> None:
    await replica.send(update)
    refused = await refusal(replica)
    assert refused.code == "invalid_request"
    assert word in refused.message
    assert service.engine.num_sessions == 0


async def test_a_refusal_leaves_the_other_sessions_of_its_message_alone(replica: Replica) -> None:
    await replica.send(opening("bad", fingerprint="theirs"), opening("good"))
    assert (await refusal(replica)).session_id == "bad"
    assert (await replica.answer()).session_id == "good"


async def test_a_commit_out_of_sync_is_refused_until_the_session_is_opened_again(
    replica: Replica, service: Service
) -> None:
    await replica.send(opening())
    await replica.block()
    await replica.send(commitment(base_length=7, tokens=[1]))
    assert (await refusal(replica)).code == "out_of_sync"
    await replica.send(commitment(base_length=3, tokens=[1]))
    assert (await refusal(replica)).code == "out_of_sync"
    await replica.send(opening(tokens=[1] * 8))
    assert (await replica.block()).base_length == 8
    assert service.engine.num_sessions == 1


async def test_a_commit_to_a_session_never_opened_is_out_of_sync(replica: Replica) -> None:
    await replica.send(commitment("stranger", tokens=[1]))
    refused = await refusal(replica)
    assert (refused.session_id, refused.code) == ("stranger", "out_of_sync")


async def test_a_commit_of_a_token_outside_the_vocabulary_is_refused(replica: Replica) -> None:
    await replica.send(opening())
    await replica.block()
    await replica.send(commitment(base_length=3, tokens=[64]))
    assert (await refusal(replica)).session_id == "s"


async def test_closing_a_session_never_opened_is_harmless(replica: Replica) -> None:
    await replica.send(Close("stranger"), opening())
    assert (await replica.block()).base_length == 3


async def test_a_session_too_many_is_refused_until_another_closes(replica: Replica) -> None:
    await replica.send(*(opening(name) for name in "abcd"))
    await replica.message()
    await replica.send(opening("e"))
    refused = await refusal(replica)
    assert (refused.session_id, refused.code) == ("e", "overloaded")
    await replica.send(Close("a"), opening("e"))
    assert (await replica.answer()).session_id == "e"


async def test_a_full_service_lets_a_session_be_opened_again(replica: Replica) -> None:
    await replica.send(*(opening(name) for name in "abcd"))
    await replica.message()
    await replica.send(opening("d", tokens=[8]))
    assert (await replica.block()).base_length == 1


async def test_the_end_of_a_stream_closes_its_sessions(
    replica: Replica, service: Service, source: ScriptedSource
) -> None:
    await replica.send(opening("a"), opening("b"))
    await replica.message()
    await replica.call.done_writing()
    assert await replica.message() == []
    await service.holds(sessions=0)
    assert sorted(source.closed) == ["a", "b"]


async def test_a_replica_that_vanishes_leaves_no_sessions(service: Service) -> None:
    async with connected(service) as vanishing:
        await vanishing.send(opening("a"), opening("b"))
        await vanishing.message()
    await service.holds(sessions=0)


async def test_a_session_opened_on_another_stream_belongs_to_that_one(
    replica: Replica, service: Service
) -> None:
    await replica.send(opening(tokens=[1]))
    await replica.block()
    async with connected(service) as other:
        await other.send(opening(tokens=[1, 2]))
        assert (await other.block()).base_length == 2
        await other.send(commitment(base_length=2, tokens=[3]))
        assert (await other.block()).base_length == 3


async def test_the_end_of_the_old_stream_does_not_close_a_session_that_moved(
    replica: Replica, service: Service
) -> None:
    async with connected(service) as old:
        await old.send(opening())
        await old.block()
        await replica.send(opening())
        await replica.block()
    await replica.send(opening("probe"))
    await replica.block()
    await replica.send(commitment(base_length=3, tokens=[4]))
    assert (await replica.block()).base_length == 4


async def test_a_close_on_the_old_stream_does_not_close_a_session_that_moved(
    replica: Replica, service: Service
) -> None:
    async with connected(service) as old:
        await old.send(opening())
        await old.block()
        await replica.send(opening())
        await replica.block()
        await old.send(Close("s"), opening("probe"))
        await old.block()
        await replica.send(commitment(base_length=3, tokens=[4]))
        assert isinstance(await replica.answer(), Proposed)


async def test_a_late_commit_on_the_old_stream_is_refused_without_harm_to_a_session_that_moved(
    replica: Replica, service: Service
) -> None:
    async with connected(service) as old:
        await old.send(opening())
        await old.block()
        await replica.send(opening())
        await replica.block()
        await old.send(commitment(base_length=3, tokens=[4]))
        assert (await refusal(old)).code == "out_of_sync"
        await replica.send(commitment(base_length=3, tokens=[4]))
        assert isinstance(await replica.answer(), Proposed)


async def test_a_malformed_update_ends_its_stream_and_names_the_field(
    replica: Replica, service: Service
) -> None:
    await replica.send(opening("a"))
    await replica.block()
    await replica.send_raw(MALFORMED)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await replica.message()
    error = rpc.to_error(caught.value)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert isinstance(error, InvalidRequest)
    assert error.field == "mode"
    await service.holds(sessions=0)


async def test_a_malformed_update_on_one_stream_is_nothing_to_another(
    replica: Replica, service: Service
) -> None:
    await replica.send(opening("a"))
    await replica.block()
    async with connected(service) as other:
        await other.send_raw(MALFORMED)
        with pytest.raises(grpc.aio.AioRpcError):
            await other.message()
    await replica.send(commitment("a", tokens=[4]))
    assert (await replica.block()).base_length == 4


async def test_answers_before_a_malformed_update_still_arrive(replica: Replica) -> None:
    await replica.send(opening("bad", fingerprint="theirs"))
    await replica.send_raw(MALFORMED)
    assert (await refusal(replica)).session_id == "bad"
    with pytest.raises(grpc.aio.AioRpcError):
        await replica.message()


async def test_draining_ends_the_stream_well(replica: Replica, service: Service) -> None:
    await replica.send(opening())
    await replica.block()
    draining = asyncio.create_task(service.engine.drain(PATIENCE_SECONDS))
    await replica.send(Close("s"))
    await draining
    assert await replica.message() == []
    assert await replica.call.code() is grpc.StatusCode.OK


async def test_the_status_tells_readiness_sessions_and_what_does_not_change(
    replica: Replica, service: Service
) -> None:
    before = await service.status()
    await replica.send(opening("a"), opening("b"))
    await replica.message()
    service.servicer.ready = True
    after = await service.status()
    assert (before.ready, before.sessions) == (False, 0)
    assert (after.ready, after.sessions) == (True, 2)
    assert (after.source, after.fingerprint) == ("scripted", "ours")
