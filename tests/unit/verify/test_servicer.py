"""The edge over real gRPC, with the scripted engine behind it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc.aio
import pytest

from common import codec, rpc
from common.errors import InvalidRequest, NotFound, TandemError, Unavailable
from common.types import (
    DraftEndpoint,
    FactCheck,
    GenerateRequest,
    Message,
    Mode,
    Prompt,
    SamplingParams,
    SpeculationParams,
    Started,
    Stopping,
)
from protos.tandem.v1 import types_pb2, verify_pb2, verify_pb2_grpc
from tests.support.scripted import (
    EOS,
    GREEDY,
    Answer,
    Bench,
    CharTokenizer,
    Script,
    ask,
    half_wrong,
    make_engine,
    read,
    running,
)
from tests.unit.verify.support import until
from verify_service.servicer import VerifyServicer

TOKENIZER = CharTokenizer()
PROMPT = TOKENIZER.encode("over")
ANSWER = [*TOKENIZER.encode(" the wire, é and all"), EOS]
ENDLESS = ask(PROMPT, "draft", stopping=Stopping(max_tokens=400, ignore_eos=True))
STATUS = verify_pb2.VerifyStatus(model="scripted", fingerprint="scripted", max_running=16, kv_blocks_total=64)


@dataclass
class Served:
    bench: Bench
    servicer: VerifyServicer
    stub: verify_pb2_grpc.VerifyServiceAsyncStub

    async def generate(self, request: GenerateRequest) -> Answer:
        call = self.stub.Generate(codec.generate_to_proto(request))
        return Answer([codec.event_from_proto(event) async for event in call])


@pytest.fixture
async def served() -> AsyncGenerator[Served, None]:
    script = Script(len(TOKENIZER))
    script.add(PROMPT, ANSWER)
    async with serving(make_engine(script, {"draft": half_wrong(script)}, num_blocks=64)) as made:
        yield made


@asynccontextmanager
async def serving(bench: Bench) -> AsyncGenerator[Served, None]:
    servicer = VerifyServicer(bench.engine, bench.admission, STATUS)
    servicer.ready = True
    server = rpc.Server("127.0.0.1:0")
    verify_pb2_grpc.add_VerifyServiceServicer_to_server(servicer, server.grpc)
    await server.start()
    async with running(bench.engine), rpc.channel(f"127.0.0.1:{server.port}") as channel:
        stub = verify_pb2_grpc.VerifyServiceStub(channel)
        try:
            yield Served(bench, servicer, stub)
        finally:
            await server.drain(0)


async def failure(call: Any) -> TandemError:
    """The error a call ends with, as a client of ours sees it."""
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        if hasattr(call, "__aiter__"):
            async for _ in call:
                pass
        else:
            await call
    return rpc.to_error(failed.value)


async def test_an_answer_crosses_the_wire_as_the_engine_gave_it(served: Served) -> None:
    request = ask(PROMPT, "draft")
    here = await read(served.bench.engine, request)
    there = await served.generate(request)
    assert there.token_ids == here.token_ids == ANSWER
    assert there.text == here.text
    assert there.provenance == here.provenance
    assert there.finished.usage == here.finished.usage
    assert there.started == here.started


async def test_cancelling_the_call_frees_the_slot_within_200_milliseconds(served: Served) -> None:
    served.bench.runner.pause_seconds = 0.002
    call = served.stub.Generate(codec.generate_to_proto(ENDLESS))
    for _ in range(4):
        await call.read()
    assert served.bench.engine.load == (1, 0)
    started = time.monotonic()
    call.cancel()
    await until(lambda: served.bench.engine.load == (0, 0))
    assert time.monotonic() - started < 0.2
    served.bench.assert_idle()


async def test_a_deadline_that_passes_frees_the_slot_too(served: Served) -> None:
    served.bench.runner.pause_seconds = 0.005
    call = served.stub.Generate(codec.generate_to_proto(ENDLESS), timeout=0.1)
    assert (await failure(call)).code == "timed_out"
    await until(lambda: served.bench.engine.load == (0, 0), seconds=0.3)
    served.bench.assert_idle()


async def test_a_service_that_is_not_ready_is_unavailable(served: Served) -> None:
    served.servicer.ready = False
    error = await failure(served.stub.Generate(codec.generate_to_proto(ask(PROMPT))))
    assert isinstance(error, Unavailable)
    assert (await served.stub.Status(types_pb2.StatusRequest())).ready is False
    served.bench.assert_idle()


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (ask([len(TOKENIZER)]), "prompt"),
        (ask(PROMPT, stopping=Stopping(stop_token_ids=frozenset({10**6}))), "stop_token_ids"),
        (ask(PROMPT, sampling=SamplingParams(logit_bias={10**6: 1})), "logit_bias"),
        (ask(PROMPT, speculation=SpeculationParams(block_size=64)), "speculation.block_size"),
        (ask(PROMPT, speculation=SpeculationParams(fact_check=FactCheck.VETO)), "speculation.fact_check"),
    ],
)
async def test_the_field_of_a_refused_request_crosses_the_wire(
    served: Served, request_: GenerateRequest, field: str
) -> None:
    error = await failure(served.stub.Generate(codec.generate_to_proto(request_)))
    assert isinstance(error, InvalidRequest)
    assert error.field == field
    assert field.rsplit(".", maxsplit=1)[-1] in error.message or "fact check" in error.message


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda wire: wire.ClearField("prompt"), "prompt"),
        (lambda wire: setattr(wire.sampling, "temperature", 3), "temperature"),
        (lambda wire: setattr(wire.sampling, "temperature", float("nan")), "temperature"),
        (lambda wire: setattr(wire.sampling, "top_p", 1.5), "top_p"),
        (lambda wire: setattr(wire.speculation, "mode", 77), "speculation.mode"),
        (lambda wire: setattr(wire.speculation, "fact_check", 77), "speculation.fact_check"),
        (lambda wire: wire.stopping.stop.append(""), "stop"),
    ],
)
async def test_a_message_no_dataclass_could_hold_is_refused_by_field(
    served: Served, change: Any, field: str
) -> None:
    wire = codec.generate_to_proto(ask(PROMPT))
    change(wire)
    error = await failure(served.stub.Generate(wire))
    assert isinstance(error, InvalidRequest)
    assert error.field == field
    served.bench.assert_idle()


async def test_a_target_that_fails_is_an_internal_error_without_details(served: Served) -> None:
    served.bench.runner.fail_next = True
    error = await failure(served.stub.Generate(codec.generate_to_proto(ask(PROMPT))))
    assert error.code == "internal_error"
    assert not isinstance(error, NotFound)
    assert "told to fail" not in error.message
    assert (await served.generate(ask(PROMPT))).token_ids == ANSWER


@pytest.mark.parametrize("prompt", ["over", PROMPT, (Message("user", "hi"),)])
async def test_tokenize_gives_the_ids_and_the_context(served: Served, prompt: Prompt) -> None:
    answer = await served.stub.Tokenize(verify_pb2.TokenizeRequest(prompt=codec.prompt_to_proto(prompt)))
    expected = TOKENIZER.encode("user: hi\n") if isinstance(prompt, tuple) else PROMPT
    assert list(answer.token_ids) == expected
    assert answer.context_length == 512


async def test_detokenize_gives_the_text_and_refuses_what_is_no_id(served: Served) -> None:
    answer = await served.stub.Detokenize(verify_pb2.DetokenizeRequest(token_ids=ANSWER))
    assert answer.text == " the wire, é and all"
    error = await failure(served.stub.Detokenize(verify_pb2.DetokenizeRequest(token_ids=[2**32 - 1])))
    assert error.field == "token_ids"
    error = await failure(served.stub.Tokenize(verify_pb2.TokenizeRequest()))
    assert error.field == "prompt"


async def test_status_tells_what_is_running_now(served: Served) -> None:
    idle = await served.stub.Status(types_pb2.StatusRequest())
    assert (idle.ready, idle.model, idle.running, idle.waiting) == (True, "scripted", 0, 0)
    assert (idle.kv_blocks_free, idle.kv_blocks_total) == (64, 64)
    served.bench.runner.pause_seconds = 0.002
    call = served.stub.Generate(codec.generate_to_proto(ENDLESS))
    await call.read()
    await call.read()
    busy = await served.stub.Status(types_pb2.StatusRequest())
    assert (busy.running, busy.waiting) == (1, 0)
    assert busy.kv_blocks_free < 64
    call.cancel()
    await until(lambda: served.bench.engine.load == (0, 0))


async def test_a_negative_seed_and_every_option_come_through(served: Served) -> None:
    request = GenerateRequest(
        "r",
        PROMPT,
        SamplingParams(temperature=0.5, top_k=3, seed=-(2**63), logit_bias={3: 0.0}),
        Stopping(max_tokens=5, stop=("zz",), stop_token_ids=frozenset({2}), ignore_eos=True),
        SpeculationParams(mode=Mode.REJECTION, block_size=2),
        (DraftEndpoint("pool", "draft"),),
    )
    answer = await served.generate(request)
    assert isinstance(answer.events[0], Started)
    assert answer.started.mode is Mode.REJECTION
    assert answer.token_ids == ANSWER[:5]


async def test_many_calls_cancelled_at_once_leave_nothing(served: Served) -> None:
    served.bench.runner.pause_seconds = 0.001
    calls = [served.stub.Generate(codec.generate_to_proto(ENDLESS)) for _ in range(20)]
    await asyncio.gather(*(call.read() for call in calls))
    for call in calls:
        call.cancel()
    await until(lambda: served.bench.engine.load == (0, 0))
    served.bench.assert_idle()
    assert (await served.generate(ask(PROMPT, sampling=GREEDY))).token_ids == ANSWER
