"""What several services speak: modes, sampling parameters, endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from common.constraint import Constraint, ConstraintKind
from common.errors import InvalidRequest
from common.types import DraftEndpoint, FactCheck, Mode, SamplingParams
from protos.tandem.v1 import types_pb2

T = TypeVar("T")

MODES = {
    Mode.REJECTION: types_pb2.VERIFICATION_MODE_REJECTION,
    Mode.KEYED: types_pb2.VERIFICATION_MODE_KEYED,
}
FACT_CHECKS = {
    FactCheck.OFF: types_pb2.FACT_CHECK_MODE_OFF,
    FactCheck.ANNOTATE: types_pb2.FACT_CHECK_MODE_ANNOTATE,
    FactCheck.VETO: types_pb2.FACT_CHECK_MODE_VETO,
}
CONSTRAINTS = {
    ConstraintKind.JSON_SCHEMA: types_pb2.CONSTRAINT_KIND_JSON_SCHEMA,
    ConstraintKind.REGEX: types_pb2.CONSTRAINT_KIND_REGEX,
    ConstraintKind.CHOICE: types_pb2.CONSTRAINT_KIND_CHOICE,
    ConstraintKind.GRAMMAR: types_pb2.CONSTRAINT_KIND_GRAMMAR,
}
MODES_BACK: dict[int, Mode] = {wire: value for value, wire in MODES.items()}
FACT_CHECKS_BACK: dict[int, FactCheck] = {wire: value for value, wire in FACT_CHECKS.items()}
CONSTRAINTS_BACK: dict[int, ConstraintKind] = {wire: value for value, wire in CONSTRAINTS.items()}


def known(values: Mapping[int, T], wire: int, field: str) -> T:
    """Raises InvalidRequest for a value that this build does not know."""
    if wire not in values:
        raise InvalidRequest(f"unknown {field} {wire}", field=field)
    return values[wire]


def mode_from_proto(wire: int, field: str) -> Mode | None:
    """None when unset.

    Raises:
        InvalidRequest: for a mode this build does not know.
    """
    if wire == types_pb2.VERIFICATION_MODE_UNSPECIFIED:
        return None
    if wire not in MODES_BACK:
        raise InvalidRequest(f"unknown verification mode {wire}", field=field)
    return MODES_BACK[wire]


def fact_check_from_proto(wire: int) -> FactCheck:
    if wire == types_pb2.FACT_CHECK_MODE_UNSPECIFIED:
        return FactCheck.OFF
    if wire not in FACT_CHECKS_BACK:
        raise InvalidRequest(f"unknown fact-check mode {wire}", field="speculation.fact_check")
    return FACT_CHECKS_BACK[wire]


def sampling_to_proto(params: SamplingParams) -> types_pb2.SamplingParams:
    return types_pb2.SamplingParams(
        temperature=params.temperature,
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
        repetition_penalty=params.repetition_penalty,
        frequency_penalty=params.frequency_penalty,
        presence_penalty=params.presence_penalty,
        logit_bias=dict(params.logit_bias),
        seed=params.seed,
    )


def sampling_from_proto(wire: types_pb2.SamplingParams) -> SamplingParams:
    return SamplingParams(
        temperature=wire.temperature if wire.HasField("temperature") else 1.0,
        top_k=wire.top_k,
        top_p=wire.top_p or 1.0,
        min_p=wire.min_p,
        repetition_penalty=wire.repetition_penalty or 1.0,
        frequency_penalty=wire.frequency_penalty,
        presence_penalty=wire.presence_penalty,
        logit_bias=dict(wire.logit_bias),
        seed=wire.seed if wire.HasField("seed") else None,
    )


def constraint_to_proto(constraint: Constraint | None) -> types_pb2.Constraint | None:
    if constraint is None:
        return None
    return types_pb2.Constraint(
        kind=CONSTRAINTS[constraint.kind], text=constraint.text, field=constraint.field
    )


def constraint_from_proto(wire: types_pb2.Constraint) -> Constraint:
    """Raises InvalidRequest for a kind this build does not know, or a text that is empty or too long."""
    field = wire.field or "constraint"
    if wire.kind not in CONSTRAINTS_BACK:
        raise InvalidRequest(f"unknown kind of constraint {wire.kind}", field=field)
    return Constraint(CONSTRAINTS_BACK[wire.kind], wire.text, field)


def endpoints_to_proto(endpoints: Iterable[DraftEndpoint]) -> list[types_pb2.DraftEndpoint]:
    return [types_pb2.DraftEndpoint(name=e.name, address=e.address) for e in endpoints]


def endpoints_from_proto(wire: Iterable[types_pb2.DraftEndpoint]) -> tuple[DraftEndpoint, ...]:
    return tuple(DraftEndpoint(e.name, e.address) for e in wire)
