"""A step of a draft trace, one way and the other."""

from __future__ import annotations

from common.codec.shared import known
from common.trace import Fate, TraceFlag, TraceGuess, TraceStep, TraceTimes
from protos.tandem.v1 import verify_pb2

_FATES = {
    Fate.ACCEPTED: verify_pb2.GUESS_FATE_ACCEPTED,
    Fate.REJECTED: verify_pb2.GUESS_FATE_REJECTED,
    Fate.UNREACHED: verify_pb2.GUESS_FATE_UNREACHED,
    Fate.UNSURE: verify_pb2.GUESS_FATE_UNSURE,
    Fate.INVALID: verify_pb2.GUESS_FATE_INVALID,
    Fate.VETOED: verify_pb2.GUESS_FATE_VETOED,
    Fate.UNVERIFIED: verify_pb2.GUESS_FATE_UNVERIFIED,
}
_FATES_BACK: dict[int, Fate] = {wire: value for value, wire in _FATES.items()}


def trace_to_proto(step: TraceStep) -> verify_pb2.TraceStep:
    times = step.times
    return verify_pb2.TraceStep(
        first_token=step.first_token,
        texts=step.texts,
        p=step.p,
        guesses=map(_guess_to_proto, step.guesses),
        model_version=step.model_version,
        ahead=step.ahead,
        flags=[
            verify_pb2.TraceFlag(
                first_guess=flag.first_guess,
                end_guess=flag.end_guess,
                text=flag.text,
                rule=flag.rule,
                evidence=flag.evidence,
            )
            for flag in step.flags
        ],
        times=verify_pb2.TraceTimes(
            started=times.started,
            wait=times.wait,
            model=times.model,
            accept=times.accept,
            drafting=times.drafting,
            round_trip=times.round_trip,
        ),
        batch=step.batch,
        rows=step.rows,
    )


def _guess_to_proto(guess: TraceGuess) -> verify_pb2.TraceGuess:
    return verify_pb2.TraceGuess(
        token_id=guess.token_id,
        text=guess.text,
        parent=guess.parent,
        source=guess.source,
        fate=_FATES[guess.fate],
        q=guess.q,
        p=guess.p,
        confidence=guess.confidence,
    )


def trace_from_proto(wire: verify_pb2.TraceStep) -> TraceStep:
    """Raises InvalidRequest for a fate this build does not know."""
    times = wire.times
    return TraceStep(
        first_token=wire.first_token,
        texts=tuple(wire.texts),
        p=tuple(wire.p),
        times=TraceTimes(
            times.started, times.wait, times.model, times.accept, times.drafting, times.round_trip
        ),
        batch=wire.batch,
        rows=wire.rows,
        guesses=tuple(map(_guess_from_proto, wire.guesses)),
        model_version=wire.model_version,
        ahead=wire.ahead,
        flags=tuple(
            TraceFlag(flag.first_guess, flag.end_guess, flag.text, flag.rule, flag.evidence)
            for flag in wire.flags
        ),
    )


def _guess_from_proto(wire: verify_pb2.TraceGuess) -> TraceGuess:
    return TraceGuess(
        token_id=wire.token_id,
        text=wire.text,
        parent=wire.parent,
        source=wire.source,
        fate=known(_FATES_BACK, wire.fate, "trace.guesses.fate"),
        q=wire.q if wire.HasField("q") else None,
        p=wire.p if wire.HasField("p") else None,
        confidence=wire.confidence if wire.HasField("confidence") else None,
    )
