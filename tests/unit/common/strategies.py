"""Hypothesis strategies for everything that crosses a wire."""

from __future__ import annotations

from hypothesis import strategies as st

from common.constraint import Constraint, ConstraintKind
from common.draft_types import Block, Close, Commit, HiddenStates, Open, Proposed, Refused, SparseDistribution
from common.trace import Fate, TraceFlag, TraceGuess, TraceStep, TraceTimes
from common.types import (
    Annotation,
    Delta,
    DraftEndpoint,
    FactCheck,
    Finished,
    FinishReason,
    GenerateRequest,
    Message,
    Mode,
    Origin,
    Plan,
    PolicyChoice,
    Provenance,
    RouteRequest,
    SamplingParams,
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

uint32 = st.integers(0, 2**32 - 1)
counts = st.integers(1, 2**32 - 1)
uint64 = st.integers(0, 2**64 - 1)
probabilities = st.floats(0, 1, width=32)
token_ids = st.lists(uint32, max_size=5)
texts = st.text(max_size=10)
names = st.text(min_size=1, max_size=10)

sampling = st.builds(
    SamplingParams,
    temperature=st.floats(0, 2),
    top_k=uint32,
    top_p=st.floats(0, 1, exclude_min=True),
    min_p=st.floats(0, 1),
    repetition_penalty=st.floats(0, 10, exclude_min=True),
    frequency_penalty=st.floats(-2, 2),
    presence_penalty=st.floats(-2, 2),
    logit_bias=st.dictionaries(uint32, st.floats(-100, 100), max_size=3),
    seed=st.none() | st.integers(-(2**63), 2**63 - 1),
)
constraints = st.none() | st.builds(Constraint, st.sampled_from(ConstraintKind), names, names)
endpoints = st.lists(st.builds(DraftEndpoint, texts, texts), max_size=3).map(tuple)
distributions = st.lists(st.tuples(uint32, probabilities), max_size=4).map(
    lambda pairs: SparseDistribution(tuple(t for t, _ in pairs), tuple(p for _, p in pairs))
)
blocks = st.builds(
    Block,
    block_id=uint64,
    base_length=uint32,
    token_ids=token_ids.map(tuple),
    parents=st.lists(st.integers(-1, 2**31 - 1), max_size=5).map(tuple),
    probabilities=st.lists(probabilities, max_size=5).map(tuple),
    distributions=st.lists(distributions, max_size=3).map(tuple),
    confidences=st.lists(probabilities, max_size=5).map(tuple),
    source=texts,
    model_version=texts,
    drafting_seconds=st.floats(0, 1e6),
    sources=st.lists(texts, max_size=5).map(tuple),
)
hidden_states = st.none() | st.builds(HiddenStates, uint32, st.binary(max_size=8))
opens = st.builds(
    Open,
    session_id=names,
    fingerprint=texts,
    vocabulary_size=uint32,
    token_ids=token_ids,
    prompt_length=uint32,
    sampling=sampling,
    mode=st.sampled_from(Mode),
    noise_seed=uint64,
    block_size=uint32,
    max_block_size=counts,
    tree_width=counts,
    publish=st.booleans(),
    grammar=texts,
    held_tokens=st.dictionaries(uint32, uint32, max_size=3),
    hidden_layers=token_ids.map(tuple),
    hidden_size=uint32,
    hidden_states=hidden_states,
    tenant=texts,
    shown_temperature=st.floats(0, 2),
)
commits = st.builds(
    Commit,
    session_id=names,
    base_length=uint32,
    block_id=uint64,
    accepted_nodes=token_ids.map(tuple),
    token_ids=token_ids.map(tuple),
    block_size=uint32,
    tree_width=uint32,
    hidden_states=hidden_states,
)
updates = opens | commits | st.builds(Close, session_id=names)
answers = st.builds(Proposed, names, blocks) | st.builds(Refused, names, texts, texts)

policies = st.builds(PolicyChoice, names, st.dictionaries(names, st.floats(-10, 10), max_size=3))
validators = st.builds(ValidatorChoice, names, st.dictionaries(names, texts, max_size=3))
prompts = st.lists(st.builds(Message, texts, texts), max_size=3).map(tuple) | texts | token_ids
modes_and_checks = st.tuples(st.none() | st.sampled_from(Mode), st.sampled_from(FactCheck)).filter(
    lambda pair: pair != (Mode.REJECTION, FactCheck.VETO)
)
generate_requests = st.builds(
    GenerateRequest,
    request_id=texts,
    prompt=prompts,
    sampling=sampling,
    stopping=st.builds(
        Stopping,
        max_tokens=st.none() | counts,
        stop=st.lists(names, max_size=3).map(tuple),
        stop_token_ids=st.frozensets(uint32, max_size=3),
        ignore_eos=st.booleans(),
        min_tokens=st.integers(0, 1),
    ),
    speculation=modes_and_checks.flatmap(
        lambda pair: st.builds(
            SpeculationParams,
            disabled=st.booleans(),
            mode=st.just(pair[0]),
            block_size=st.none() | counts,
            fact_check=st.just(pair[1]),
            policy=st.none() | policies if pair[0] is None else st.none(),
            validators=st.lists(validators, max_size=3).map(tuple),
            trace=st.booleans(),
        )
    ),
    drafts=endpoints,
    cache_salt=texts,
    constraint=constraints,
    top_logprobs=st.none() | st.integers(0, 20),
    terms=st.builds(Terms, texts, uint32, st.booleans()),
)
started = st.builds(Started, texts, uint32, st.sampled_from(Mode), texts, texts)
scored = st.builds(ScoredToken, uint32, st.floats(-100, 0, width=32), st.binary(max_size=4))
deltas = st.builds(
    Delta,
    token_ids=token_ids.map(tuple),
    provenance=st.lists(st.builds(Provenance, st.sampled_from(Origin), texts), max_size=5).map(tuple),
    text=texts,
    annotations=st.lists(st.builds(Annotation, uint32, uint32, texts, texts, texts, texts), max_size=2).map(
        tuple
    ),
    logprobs=st.lists(
        st.builds(TokenLogprobs, scored, st.lists(scored, max_size=2).map(tuple)), max_size=2
    ).map(tuple),
)
seconds = st.floats(0, 1e6)
int32 = st.integers(-(2**31), 2**31 - 1)
steps = st.builds(
    TraceStep,
    first_token=uint32,
    texts=st.just((b"\xe2", b"x")),
    p=st.tuples(probabilities, probabilities),
    times=st.builds(TraceTimes, seconds, seconds, seconds, seconds, seconds, seconds),
    batch=uint32,
    rows=uint32,
    guesses=st.lists(
        st.builds(
            TraceGuess,
            uint32,
            st.binary(max_size=4),
            int32,
            texts,
            st.sampled_from(Fate),
            st.none() | probabilities,
            st.none() | probabilities,
            st.none() | probabilities,
        ),
        max_size=3,
    ).map(tuple),
    model_version=texts,
    ahead=st.booleans(),
    flags=st.lists(st.builds(TraceFlag, int32, int32, texts, texts, texts), max_size=2).map(tuple),
)
traced = st.builds(
    Delta,
    token_ids=st.tuples(uint32, uint32),
    provenance=st.just((Provenance(Origin.DRAFT, "small"), Provenance(Origin.BONUS))),
    trace=steps,
)
finished = st.builds(
    Finished,
    reason=st.sampled_from(FinishReason),
    usage=st.builds(Usage, uint32, uint32, uint32),
    stats=st.builds(
        SpeculationStats,
        uint32,
        uint32,
        uint32,
        uint32,
        token_ids,
        token_ids,
        uint32,
        uint32,
        uint32,
        uint32,
        st.floats(0, 1e6),
        uint32,
    ),
    trace_dropped=uint32,
)
events = started | deltas | traced | finished

route_requests = st.builds(
    RouteRequest, texts, texts, texts, uint32, st.booleans(), texts, st.lists(texts, max_size=3).map(tuple)
)
plans = st.builds(Plan, texts, texts, endpoints, texts, uint32, st.booleans())
