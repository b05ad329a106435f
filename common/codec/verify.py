"""Generate: a request one way, events the other."""

from __future__ import annotations

from common.codec.shared import (
    FACT_CHECKS,
    MODES,
    constraint_from_proto,
    constraint_to_proto,
    endpoints_from_proto,
    endpoints_to_proto,
    fact_check_from_proto,
    known,
    mode_from_proto,
    sampling_from_proto,
    sampling_to_proto,
)
from common.codec.trace import trace_from_proto, trace_to_proto
from common.errors import InvalidRequest
from common.types import (
    Annotation,
    Delta,
    Finished,
    FinishReason,
    GenerateEvent,
    GenerateRequest,
    Message,
    Origin,
    PolicyChoice,
    Prompt,
    Provenance,
    ScoredToken,
    SpeculationParams,
    SpeculationStats,
    Started,
    Stopping,
    Terms,
    TokenLogprobs,
    Usage,
    ValidatorChoice,
)
from protos.tandem.v1 import types_pb2, verify_pb2

_ORIGINS = {
    Origin.TARGET: verify_pb2.TOKEN_ORIGIN_TARGET,
    Origin.DRAFT: verify_pb2.TOKEN_ORIGIN_DRAFT,
    Origin.CORRECTED: verify_pb2.TOKEN_ORIGIN_CORRECTED,
    Origin.BONUS: verify_pb2.TOKEN_ORIGIN_BONUS,
}
_REASONS = {
    FinishReason.STOP: verify_pb2.FINISH_REASON_STOP,
    FinishReason.LENGTH: verify_pb2.FINISH_REASON_LENGTH,
}
_ORIGINS_BACK: dict[int, Origin] = {wire: value for value, wire in _ORIGINS.items()}
_REASONS_BACK: dict[int, FinishReason] = {wire: value for value, wire in _REASONS.items()}


def prompt_to_proto(prompt: Prompt) -> verify_pb2.Prompt:
    if isinstance(prompt, str):
        return verify_pb2.Prompt(text=prompt)
    if isinstance(prompt, list):
        return verify_pb2.Prompt(tokens=verify_pb2.TokenSequence(token_ids=prompt))
    messages = [verify_pb2.Message(role=m.role, content=m.content) for m in prompt]
    return verify_pb2.Prompt(conversation=verify_pb2.Conversation(messages=messages))


def prompt_from_proto(wire: verify_pb2.Prompt) -> Prompt:
    """Raises InvalidRequest when no prompt is set."""
    match wire.WhichOneof("prompt"):
        case "conversation":
            return tuple(Message(m.role, m.content) for m in wire.conversation.messages)
        case "text":
            return wire.text
        case "tokens":
            return list(wire.tokens.token_ids)
        case _:
            raise InvalidRequest("prompt is missing", field="prompt")


def generate_to_proto(request: GenerateRequest) -> verify_pb2.GenerateRequest:
    stopping, speculation = request.stopping, request.speculation
    return verify_pb2.GenerateRequest(
        request_id=request.request_id,
        prompt=prompt_to_proto(request.prompt),
        sampling=sampling_to_proto(request.sampling),
        stopping=verify_pb2.Stopping(
            max_tokens=stopping.max_tokens or 0,
            stop=stopping.stop,
            stop_token_ids=sorted(stopping.stop_token_ids),
            ignore_eos=stopping.ignore_eos,
            min_tokens=stopping.min_tokens,
        ),
        speculation=verify_pb2.Speculation(
            disabled=speculation.disabled,
            mode=MODES[speculation.mode] if speculation.mode else types_pb2.VERIFICATION_MODE_UNSPECIFIED,
            block_size=speculation.block_size or 0,
            tree_width=speculation.tree_width or 0,
            fact_check=FACT_CHECKS[speculation.fact_check],
            policy=_policy_to_proto(speculation.policy),
            validators=[verify_pb2.Validator(name=v.name, options=v.options) for v in speculation.validators],
            trace=speculation.trace,
        ),
        drafts=endpoints_to_proto(request.drafts),
        cache_salt=request.cache_salt,
        constraint=constraint_to_proto(request.constraint),
        top_logprobs=request.top_logprobs,
        terms=verify_pb2.Terms(
            prompt_class=request.terms.prompt_class,
            largest_block=request.terms.largest_block,
            shadow=request.terms.shadow,
        ),
    )


def generate_from_proto(wire: verify_pb2.GenerateRequest) -> GenerateRequest:
    return GenerateRequest(
        request_id=wire.request_id,
        prompt=prompt_from_proto(wire.prompt),
        sampling=sampling_from_proto(wire.sampling),
        stopping=Stopping(
            max_tokens=wire.stopping.max_tokens or None,
            stop=tuple(wire.stopping.stop),
            stop_token_ids=frozenset(wire.stopping.stop_token_ids),
            ignore_eos=wire.stopping.ignore_eos,
            min_tokens=wire.stopping.min_tokens,
        ),
        speculation=SpeculationParams(
            disabled=wire.speculation.disabled,
            mode=mode_from_proto(wire.speculation.mode, "speculation.mode"),
            block_size=wire.speculation.block_size or None,
            tree_width=wire.speculation.tree_width or None,
            fact_check=fact_check_from_proto(wire.speculation.fact_check),
            policy=_policy_from_proto(wire.speculation.policy),
            validators=tuple(ValidatorChoice(v.name, dict(v.options)) for v in wire.speculation.validators),
            trace=wire.speculation.trace,
        ),
        drafts=endpoints_from_proto(wire.drafts),
        cache_salt=wire.cache_salt,
        constraint=constraint_from_proto(wire.constraint) if wire.HasField("constraint") else None,
        top_logprobs=wire.top_logprobs if wire.HasField("top_logprobs") else None,
        terms=Terms(wire.terms.prompt_class, wire.terms.largest_block, wire.terms.shadow),
    )


def _policy_to_proto(policy: PolicyChoice | None) -> verify_pb2.Policy | None:
    return verify_pb2.Policy(name=policy.name, parameters=policy.parameters) if policy else None


def _policy_from_proto(wire: verify_pb2.Policy) -> PolicyChoice | None:
    return PolicyChoice(wire.name, dict(wire.parameters)) if wire.name else None


def event_to_proto(event: GenerateEvent) -> verify_pb2.GenerateResponse:
    match event:
        case Started():
            started = verify_pb2.Started(
                model=event.model,
                prompt_tokens=event.prompt_tokens,
                mode=MODES[event.mode],
                system_fingerprint=event.system_fingerprint,
                policy=event.policy,
            )
            return verify_pb2.GenerateResponse(started=started)
        case Delta():
            return verify_pb2.GenerateResponse(delta=_delta_to_proto(event))
        case Finished():
            return verify_pb2.GenerateResponse(finished=_finished_to_proto(event))


def _delta_to_proto(delta: Delta) -> verify_pb2.Delta:
    return verify_pb2.Delta(
        token_ids=delta.token_ids,
        provenance=[
            verify_pb2.TokenProvenance(origin=_ORIGINS[p.origin], source=p.source) for p in delta.provenance
        ],
        text=delta.text,
        annotations=[
            verify_pb2.Annotation(
                first_token=a.first_token,
                token_count=a.token_count,
                text=a.text,
                verdict=a.verdict,
                rule=a.rule,
                evidence=a.evidence,
            )
            for a in delta.annotations
        ],
        logprobs=[
            verify_pb2.TokenLogprobs(
                chosen=_scored_to_proto(logprobs.chosen), top=map(_scored_to_proto, logprobs.top)
            )
            for logprobs in delta.logprobs
        ],
        trace=trace_to_proto(delta.trace) if delta.trace else None,
    )


def _scored_to_proto(token: ScoredToken) -> verify_pb2.ScoredToken:
    return verify_pb2.ScoredToken(token_id=token.token_id, logprob=token.logprob, text=token.text)


def _finished_to_proto(finished: Finished) -> verify_pb2.Finished:
    stats = finished.stats
    return verify_pb2.Finished(
        reason=_REASONS[finished.reason],
        usage=verify_pb2.Usage(
            prompt_tokens=finished.usage.prompt_tokens,
            completion_tokens=finished.usage.completion_tokens,
            cached_tokens=finished.usage.cached_tokens,
        ),
        stats=verify_pb2.SpeculationStats(
            steps=stats.steps,
            drafts=stats.drafts,
            draft_tokens=stats.draft_tokens,
            accepted_tokens=stats.accepted_tokens,
            accepted_per_position=stats.accepted_per_position,
            drafted_per_position=stats.drafted_per_position,
            missed_waits=stats.missed_waits,
            vetoed_tokens=stats.vetoed_tokens,
            tags_missing=stats.tags_missing,
            strayed_tokens=stats.strayed_tokens,
            nkl_sum=stats.nkl_sum,
            invalid_tokens=stats.invalid_tokens,
        ),
        trace_dropped=finished.trace_dropped,
    )


def event_from_proto(wire: verify_pb2.GenerateResponse) -> GenerateEvent:
    """Raises InvalidRequest for an event this build does not know."""
    match wire.WhichOneof("event"):
        case "started":
            started = wire.started
            mode = mode_from_proto(started.mode, "started.mode")
            if mode is None:
                raise InvalidRequest("started without a mode", field="started.mode")
            return Started(
                started.model, started.prompt_tokens, mode, started.system_fingerprint, started.policy
            )
        case "delta":
            return _delta_from_proto(wire.delta)
        case "finished":
            return _finished_from_proto(wire.finished)
        case _:
            raise InvalidRequest("event is none of started, delta, finished", field="event")


def _delta_from_proto(wire: verify_pb2.Delta) -> Delta:
    lengths = {len(wire.token_ids), len(wire.provenance), len(wire.trace.texts), len(wire.trace.p)}
    if wire.HasField("trace") and len(lengths) > 1:
        raise InvalidRequest("a trace of other tokens than the delta's", field="delta.trace")
    return Delta(
        token_ids=tuple(wire.token_ids),
        provenance=tuple(
            Provenance(known(_ORIGINS_BACK, p.origin, "origin"), p.source) for p in wire.provenance
        ),
        text=wire.text,
        annotations=tuple(
            Annotation(a.first_token, a.token_count, a.text, a.verdict, a.rule, a.evidence)
            for a in wire.annotations
        ),
        logprobs=tuple(
            TokenLogprobs(_scored_from_proto(logprobs.chosen), tuple(map(_scored_from_proto, logprobs.top)))
            for logprobs in wire.logprobs
        ),
        trace=trace_from_proto(wire.trace) if wire.HasField("trace") else None,
    )


def _scored_from_proto(wire: verify_pb2.ScoredToken) -> ScoredToken:
    return ScoredToken(wire.token_id, wire.logprob, wire.text)


def _finished_from_proto(wire: verify_pb2.Finished) -> Finished:
    stats = wire.stats
    return Finished(
        reason=known(_REASONS_BACK, wire.reason, "reason"),
        usage=Usage(wire.usage.prompt_tokens, wire.usage.completion_tokens, wire.usage.cached_tokens),
        stats=SpeculationStats(
            steps=stats.steps,
            drafts=stats.drafts,
            draft_tokens=stats.draft_tokens,
            accepted_tokens=stats.accepted_tokens,
            accepted_per_position=list(stats.accepted_per_position),
            drafted_per_position=list(stats.drafted_per_position),
            missed_waits=stats.missed_waits,
            vetoed_tokens=stats.vetoed_tokens,
            tags_missing=stats.tags_missing,
            strayed_tokens=stats.strayed_tokens,
            nkl_sum=stats.nkl_sum,
            invalid_tokens=stats.invalid_tokens,
        ),
        trace_dropped=wire.trace_dropped,
    )
