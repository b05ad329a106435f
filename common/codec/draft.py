"""The draft stream: session updates one way, blocks the other."""

from __future__ import annotations

from common.codec.shared import MODES, mode_from_proto, sampling_from_proto, sampling_to_proto
from common.draft_types import (
    Block,
    Close,
    Commit,
    HiddenStates,
    Open,
    Proposed,
    Refused,
    SessionAnswer,
    SessionUpdate,
    SparseDistribution,
)
from common.errors import InvalidRequest
from protos.tandem.v1 import draft_pb2, types_pb2


def block_to_proto(block: Block) -> types_pb2.Block:
    names = list(dict.fromkeys(block.sources))
    return types_pb2.Block(
        block_id=block.block_id,
        base_length=block.base_length,
        token_ids=block.token_ids,
        parents=block.parents,
        probabilities=block.probabilities,
        distributions=[
            types_pb2.SparseDistribution(token_ids=d.token_ids, probabilities=d.probabilities)
            for d in block.distributions
        ],
        confidences=block.confidences,
        source=block.source,
        model_version=block.model_version,
        drafting_seconds=block.drafting_seconds,
        source_names=names,
        token_sources=[names.index(name) for name in block.sources],
        assumed=block.assumed,
        disagreements=block.disagreements,
    )


def block_from_proto(wire: types_pb2.Block) -> Block:
    """Raises InvalidRequest for a token from a source that is not named."""
    names = list(wire.source_names)
    if any(index >= len(names) for index in wire.token_sources):
        raise InvalidRequest("token_sources has an index that source_names lacks", field="token_sources")
    return Block(
        block_id=wire.block_id,
        base_length=wire.base_length,
        token_ids=tuple(wire.token_ids),
        parents=tuple(wire.parents),
        probabilities=tuple(wire.probabilities),
        distributions=tuple(
            SparseDistribution(tuple(d.token_ids), tuple(d.probabilities)) for d in wire.distributions
        ),
        confidences=tuple(wire.confidences),
        source=wire.source,
        model_version=wire.model_version,
        drafting_seconds=wire.drafting_seconds,
        sources=tuple(names[index] for index in wire.token_sources),
        assumed=tuple(wire.assumed),
        disagreements=tuple(wire.disagreements),
    )


def update_to_proto(update: SessionUpdate) -> draft_pb2.SessionUpdate:
    match update:
        case Open():
            return draft_pb2.SessionUpdate(session_id=update.session_id, open=_open_to_proto(update))
        case Commit():
            return draft_pb2.SessionUpdate(
                session_id=update.session_id,
                commit=draft_pb2.Commit(
                    base_length=update.base_length,
                    block_id=update.block_id,
                    accepted_nodes=update.accepted_nodes,
                    token_ids=update.token_ids,
                    block_size=update.block_size,
                    tree_width=update.tree_width,
                    hidden_states=_states_to_proto(update.hidden_states),
                    next_block_id=update.next_block_id,
                    ahead=update.ahead,
                ),
            )
        case Close():
            return draft_pb2.SessionUpdate(session_id=update.session_id, close=draft_pb2.Close())


def _open_to_proto(update: Open) -> draft_pb2.Open:
    return draft_pb2.Open(
        fingerprint=update.fingerprint,
        vocabulary_size=update.vocabulary_size,
        token_ids=update.token_ids,
        prompt_length=update.prompt_length,
        sampling=sampling_to_proto(update.sampling),
        mode=MODES[update.mode],
        noise_seed=update.noise_seed,
        block_size=update.block_size,
        max_block_size=update.max_block_size,
        tree_width=update.tree_width,
        publish=update.publish,
        grammar=update.grammar,
        held_tokens=dict(update.held_tokens),
        tenant=update.tenant,
        hidden_layers=update.hidden_layers,
        hidden_size=update.hidden_size,
        ahead=update.ahead,
        hidden_states=_states_to_proto(update.hidden_states),
        shown_temperature=update.shown_temperature,
    )


def update_from_proto(wire: draft_pb2.SessionUpdate) -> SessionUpdate:
    """Raises InvalidRequest for an update that is none of open, commit, close."""
    if not wire.session_id:
        raise InvalidRequest("session_id is missing", field="session_id")
    match wire.WhichOneof("update"):
        case "open":
            return _open_from_proto(wire.session_id, wire.open)
        case "commit":
            commit = wire.commit
            return Commit(
                session_id=wire.session_id,
                base_length=commit.base_length,
                block_id=commit.block_id,
                accepted_nodes=tuple(commit.accepted_nodes),
                token_ids=tuple(commit.token_ids),
                block_size=commit.block_size,
                tree_width=commit.tree_width,
                hidden_states=(
                    _states_from_proto(commit.hidden_states) if commit.HasField("hidden_states") else None
                ),
                next_block_id=commit.next_block_id,
                ahead=commit.ahead,
            )
        case "close":
            return Close(wire.session_id)
        case _:
            raise InvalidRequest("update is none of open, commit, close", field="update")


def _open_from_proto(session_id: str, wire: draft_pb2.Open) -> Open:
    mode = mode_from_proto(wire.mode, "mode")
    if mode is None:
        raise InvalidRequest("mode is missing", field="mode")
    return Open(
        session_id=session_id,
        fingerprint=wire.fingerprint,
        vocabulary_size=wire.vocabulary_size,
        token_ids=list(wire.token_ids),
        prompt_length=wire.prompt_length,
        sampling=sampling_from_proto(wire.sampling),
        mode=mode,
        noise_seed=wire.noise_seed,
        block_size=wire.block_size,
        max_block_size=wire.max_block_size or wire.block_size,
        tree_width=wire.tree_width or 1,
        publish=wire.publish,
        grammar=wire.grammar,
        held_tokens=dict(wire.held_tokens),
        tenant=wire.tenant,
        hidden_layers=tuple(wire.hidden_layers),
        hidden_size=wire.hidden_size,
        ahead=wire.ahead,
        shown_temperature=wire.shown_temperature,
        hidden_states=_states_from_proto(wire.hidden_states) if wire.HasField("hidden_states") else None,
    )


def _states_to_proto(states: HiddenStates | None) -> types_pb2.HiddenStates | None:
    if states is None:
        return None
    return types_pb2.HiddenStates(first_position=states.first_position, bfloat16=states.bfloat16)


def _states_from_proto(wire: types_pb2.HiddenStates) -> HiddenStates:
    return HiddenStates(wire.first_position, wire.bfloat16)


def answer_to_proto(answer: SessionAnswer) -> draft_pb2.SessionAnswer:
    match answer:
        case Proposed():
            return draft_pb2.SessionAnswer(session_id=answer.session_id, block=block_to_proto(answer.block))
        case Refused():
            return draft_pb2.SessionAnswer(
                session_id=answer.session_id,
                refused=draft_pb2.SessionRefused(code=answer.code, message=answer.message),
            )


def answer_from_proto(wire: draft_pb2.SessionAnswer) -> SessionAnswer:
    """Raises InvalidRequest for an answer that is neither a block nor a refusal."""
    match wire.WhichOneof("answer"):
        case "block":
            return Proposed(wire.session_id, block_from_proto(wire.block))
        case "refused":
            return Refused(wire.session_id, wire.refused.code, wire.refused.message)
        case _:
            raise InvalidRequest("answer is neither block nor refused", field="answer")
