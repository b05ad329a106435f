"""What an unset field means; every default of the wire is resolved by the codec."""

from __future__ import annotations

import pytest

from common import codec
from common.draft_types import Open
from common.types import FactCheck, Mode, SamplingParams
from protos.tandem.v1 import draft_pb2, types_pb2, verify_pb2


def test_unset_sampling_parameters_are_those_of_the_dataclass() -> None:
    assert codec.sampling_from_proto(types_pb2.SamplingParams()) == SamplingParams()


def test_an_unset_temperature_is_one() -> None:
    assert codec.sampling_from_proto(types_pb2.SamplingParams()).temperature == 1.0


def test_a_temperature_of_zero_is_greedy_and_not_unset() -> None:
    params = codec.sampling_from_proto(types_pb2.SamplingParams(temperature=0.0))
    assert params.temperature == 0.0
    assert params.greedy


def test_an_unset_top_p_is_one() -> None:
    assert codec.sampling_from_proto(types_pb2.SamplingParams()).top_p == 1.0


def test_an_unset_repetition_penalty_is_one_and_penalises_nothing() -> None:
    params = codec.sampling_from_proto(types_pb2.SamplingParams())
    assert params.repetition_penalty == 1.0
    assert not params.penalised


def test_an_unset_seed_is_none() -> None:
    assert codec.sampling_from_proto(types_pb2.SamplingParams()).seed is None


@pytest.mark.parametrize("seed", [0, 1, -1, -(2**63), 2**63 - 1])
def test_a_set_seed_is_itself_even_when_zero_or_negative(seed: int) -> None:
    assert codec.sampling_from_proto(types_pb2.SamplingParams(seed=seed)).seed == seed


def test_an_unset_generate_request_stops_at_the_context_and_speculates_by_the_deployments_rules() -> None:
    request = codec.generate_from_proto(verify_pb2.GenerateRequest(prompt=verify_pb2.Prompt(text="x")))
    assert request.stopping.max_tokens is None
    assert request.stopping.stop == ()
    assert request.speculation.mode is None
    assert request.speculation.block_size is None
    assert request.speculation.fact_check is FactCheck.OFF
    assert not request.speculation.disabled
    assert request.drafts == ()


def test_an_unset_tree_width_is_a_chain_and_the_largest_block_is_the_first() -> None:
    wire = draft_pb2.SessionUpdate(
        session_id="s", open=draft_pb2.Open(mode=types_pb2.VERIFICATION_MODE_KEYED, block_size=4)
    )
    update = codec.update_from_proto(wire)
    assert isinstance(update, Open)
    assert (update.tree_width, update.block_size, update.max_block_size) == (1, 4, 4)


def test_an_unset_mode_is_none() -> None:
    assert codec.mode_from_proto(types_pb2.VERIFICATION_MODE_UNSPECIFIED, "mode") is None


def test_an_unset_fact_check_is_off() -> None:
    assert codec.fact_check_from_proto(types_pb2.FACT_CHECK_MODE_UNSPECIFIED) is FactCheck.OFF


@pytest.mark.parametrize("name", [n for n, _ in types_pb2.VerificationMode.items() if "UNSPECIFIED" not in n])
def test_every_verification_mode_of_the_wire_is_known(name: str) -> None:
    mode = codec.mode_from_proto(types_pb2.VerificationMode.Value(name), "mode")
    assert mode is Mode[name.removeprefix("VERIFICATION_MODE_")]


@pytest.mark.parametrize("name", [n for n, _ in types_pb2.FactCheckMode.items() if "UNSPECIFIED" not in n])
def test_every_fact_check_mode_of_the_wire_is_known(name: str) -> None:
    mode = codec.fact_check_from_proto(types_pb2.FactCheckMode.Value(name))
    assert mode is FactCheck[name.removeprefix("FACT_CHECK_MODE_")]
