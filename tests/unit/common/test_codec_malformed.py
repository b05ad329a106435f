"""A message that means nothing is refused, and the refusal names the field."""

from __future__ import annotations

import math

import pytest

from common import codec
from common.errors import InvalidRequest
from protos.tandem.v1 import draft_pb2, types_pb2, verify_pb2

UNKNOWN = 99
KEYED = types_pb2.VERIFICATION_MODE_KEYED


def update_field(update: draft_pb2.SessionUpdate) -> str | None:
    with pytest.raises(InvalidRequest) as caught:
        codec.update_from_proto(update)
    return caught.value.field


def event_field(event: verify_pb2.GenerateResponse) -> str | None:
    with pytest.raises(InvalidRequest) as caught:
        codec.event_from_proto(event)
    return caught.value.field


def request_field(**fields: object) -> str | None:
    wire = verify_pb2.GenerateRequest(**({"prompt": verify_pb2.Prompt(text="x")} | fields))  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest) as caught:
        codec.generate_from_proto(wire)
    return caught.value.field


def test_an_update_without_a_session_is_refused() -> None:
    assert update_field(draft_pb2.SessionUpdate(close=draft_pb2.Close())) == "session_id"


def test_an_update_that_says_nothing_is_refused() -> None:
    assert update_field(draft_pb2.SessionUpdate(session_id="s")) == "update"


def test_an_open_without_a_mode_is_refused() -> None:
    assert update_field(draft_pb2.SessionUpdate(session_id="s", open=draft_pb2.Open())) == "mode"


def test_an_open_with_an_unknown_mode_is_refused_by_the_name_that_an_open_gives_it() -> None:
    wire = draft_pb2.SessionUpdate(session_id="s", open=draft_pb2.Open(mode=UNKNOWN))  # type: ignore[arg-type]
    assert update_field(wire) == "mode"


def test_an_open_with_sampling_out_of_range_is_refused() -> None:
    wire = draft_pb2.Open(mode=KEYED, sampling=types_pb2.SamplingParams(temperature=3))
    assert update_field(draft_pb2.SessionUpdate(session_id="s", open=wire)) == "temperature"


def test_an_answer_that_says_nothing_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        codec.answer_from_proto(draft_pb2.SessionAnswer(session_id="s"))
    assert caught.value.field == "answer"


def test_a_prompt_that_is_not_set_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        codec.prompt_from_proto(verify_pb2.Prompt())
    assert caught.value.field == "prompt"


def test_an_event_that_says_nothing_is_refused() -> None:
    assert event_field(verify_pb2.GenerateResponse()) == "event"


def test_a_start_without_a_mode_is_refused() -> None:
    assert event_field(verify_pb2.GenerateResponse(started=verify_pb2.Started())) == "started.mode"


@pytest.mark.parametrize("origin", [0, UNKNOWN])
def test_a_delta_with_an_unknown_origin_is_refused(origin: int) -> None:
    provenance = [verify_pb2.TokenProvenance(origin=origin)]  # type: ignore[arg-type]
    wire = verify_pb2.GenerateResponse(delta=verify_pb2.Delta(token_ids=[1], provenance=provenance))
    assert event_field(wire) == "origin"


@pytest.mark.parametrize("reason", [0, UNKNOWN])
def test_an_end_for_an_unknown_reason_is_refused(reason: int) -> None:
    finished = verify_pb2.Finished(reason=reason)  # type: ignore[arg-type]
    assert event_field(verify_pb2.GenerateResponse(finished=finished)) == "reason"


def test_a_request_with_an_unknown_mode_is_refused() -> None:
    speculation = verify_pb2.Speculation(mode=UNKNOWN)  # type: ignore[arg-type]
    assert request_field(speculation=speculation) == "speculation.mode"


def test_a_request_with_an_unknown_fact_check_is_refused() -> None:
    speculation = verify_pb2.Speculation(fact_check=UNKNOWN)  # type: ignore[arg-type]
    assert request_field(speculation=speculation) == "speculation.fact_check"


def test_a_request_with_an_empty_stop_string_is_refused() -> None:
    assert request_field(stopping=verify_pb2.Stopping(stop=["a", ""])) == "stop"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", math.nan),
        ("temperature", -1.0),
        ("top_p", math.nan),
        ("top_p", 1.5),
        ("min_p", 2.0),
        ("repetition_penalty", -1.0),
        ("frequency_penalty", math.inf),
        ("presence_penalty", -3.0),
        ("logit_bias", {1: math.nan}),
    ],
)
def test_a_request_with_sampling_out_of_range_is_refused(name: str, value: object) -> None:
    sampling = types_pb2.SamplingParams(**{name: value})  # type: ignore[arg-type]
    assert request_field(sampling=sampling) == name


def test_a_guess_from_a_source_without_a_name_is_refused() -> None:
    block = types_pb2.Block(token_ids=[5], source_names=["ngram"], token_sources=[1])
    with pytest.raises(InvalidRequest) as caught:
        codec.answer_from_proto(draft_pb2.SessionAnswer(session_id="s", block=block))
    assert caught.value.field == "token_sources"
