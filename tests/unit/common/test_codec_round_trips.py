"""What one end sends is what the other end reads, over the bytes of the wire."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message
from hypothesis import given

from common import codec
from common.draft_types import Block, SessionAnswer, SessionUpdate
from common.types import (
    DraftEndpoint,
    GenerateEvent,
    GenerateRequest,
    Plan,
    Prompt,
    RouteRequest,
    SamplingParams,
)
from tests.unit.common import strategies

Wire = TypeVar("Wire", bound=Message)


def over_the_wire(message: Wire) -> Wire:
    return type(message).FromString(message.SerializeToString())


@given(strategies.sampling)
def test_sampling_parameters_survive_the_wire(params: SamplingParams) -> None:
    assert codec.sampling_from_proto(over_the_wire(codec.sampling_to_proto(params))) == params


@given(strategies.blocks)
def test_a_block_survives_the_wire(block: Block) -> None:
    assert codec.block_from_proto(over_the_wire(codec.block_to_proto(block))) == block


@given(strategies.updates)
def test_a_session_update_survives_the_wire(update: SessionUpdate) -> None:
    assert codec.update_from_proto(over_the_wire(codec.update_to_proto(update))) == update


@given(strategies.answers)
def test_a_session_answer_survives_the_wire(answer: SessionAnswer) -> None:
    assert codec.answer_from_proto(over_the_wire(codec.answer_to_proto(answer))) == answer


@given(strategies.prompts)
def test_a_prompt_keeps_its_kind_and_content_over_the_wire(prompt: Prompt) -> None:
    read = codec.prompt_from_proto(over_the_wire(codec.prompt_to_proto(prompt)))
    assert type(read) is type(prompt)
    assert read == prompt


@given(strategies.generate_requests)
def test_a_generate_request_survives_the_wire(request: GenerateRequest) -> None:
    assert codec.generate_from_proto(over_the_wire(codec.generate_to_proto(request))) == request


@given(strategies.events)
def test_a_generate_event_survives_the_wire(event: GenerateEvent) -> None:
    assert codec.event_from_proto(over_the_wire(codec.event_to_proto(event))) == event


@given(strategies.route_requests)
def test_a_route_request_survives_the_wire(request: RouteRequest) -> None:
    assert codec.route_from_proto(over_the_wire(codec.route_to_proto(request))) == request


@given(strategies.plans)
def test_a_plan_survives_the_wire(plan: Plan) -> None:
    assert codec.plan_from_proto(over_the_wire(codec.plan_to_proto(plan))) == plan


@given(strategies.endpoints)
def test_draft_endpoints_keep_their_order_over_the_wire(endpoints: tuple[DraftEndpoint, ...]) -> None:
    assert codec.endpoints_from_proto(codec.endpoints_to_proto(endpoints)) == endpoints
