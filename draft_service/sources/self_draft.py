"""Self-speculation: the target's first layers with its own head (Zhang et al. 2023, "Draft & Verify")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from common import sampling
from common.allowed import Allowed
from common.errors import InvalidRequest
from common.model.batch import Runner, Segment
from common.model.block_manager import BlockManager
from common.types import Mode, SparseDistribution
from draft_service.session import Session
from draft_service.sources.base import NOTHING, Guess


@dataclass(slots=True, eq=False)
class _Cache:
    """``tokens``: those whose keys and values are in ``blocks``."""

    tokens: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Draft:
    """One session's chain in the making; ``pending`` are the tokens the next pass runs."""

    session: Session
    cache: _Cache
    pending: list[int]
    allowed: Allowed | None
    token_ids: list[int] = field(default_factory=list)
    distributions: list[SparseDistribution] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)


class SelfSource:
    """Any causal LM over the target's vocabulary, run autoregressively; here the target, cut short.

    All sessions that wait advance together, one packed pass per guess. The KV of a rejected suffix is rolled
    back by keeping the part of the cache that agrees with the committed tokens.
    """

    name = "self"

    def __init__(self, runner: Runner, num_blocks: int, prefill_tokens: int, model_version: str) -> None:
        self.model_version = model_version
        self._runner = runner
        self._block_manager = BlockManager(num_blocks)
        self._prefill_tokens = prefill_tokens
        self._caches: dict[str, _Cache] = {}

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        results: dict[Session, Guess | None] = dict.fromkeys(sessions, NOTHING)
        drafts = [draft for session in sessions if (draft := self._prepare(session, sessions))]
        active = []
        for draft, logits in zip(drafts, self._run(drafts), strict=True):
            if len(draft.cache.tokens) < len(draft.session.tokens):
                results[draft.session] = None
            else:
                _choose(draft, logits)
                active.append(draft)
        while growing := [d for d in active if len(d.token_ids) < d.session.block_size]:
            for draft, logits in zip(growing, self._run(growing), strict=True):
                _choose(draft, logits)
        for draft in active:
            results[draft.session] = Guess(
                tuple(draft.token_ids), tuple(draft.distributions), tuple(draft.confidences)
            )
        return [results[session] for session in sessions]

    def close(self, session_id: str) -> None:
        cache = self._caches.pop(session_id, None)
        if cache:
            self._block_manager.free(cache.blocks)

    def _prepare(self, session: Session, waiting: Sequence[Session]) -> _Draft | None:
        """Roll the cache back to what was committed; None where the pool has no room for the session."""
        cache = self._caches.pop(session.session_id, None) or _Cache()
        self._caches[session.session_id] = cache  # the latest used is the last to be evicted
        agreed = _common_prefix(cache.tokens, session.tokens)
        del cache.tokens[min(agreed, len(session.tokens) - 1) :]
        start = len(cache.tokens)
        pending = session.tokens[start : start + self._prefill_tokens]
        needed = BlockManager.blocks_for(start + len(pending) + session.block_size) - len(cache.blocks)
        if needed > 0:
            if not self._make_room(needed, {s.session_id for s in waiting}):
                return None
            cache.blocks += self._block_manager.allocate(needed, after=cache.blocks)
        return _Draft(session, cache, pending, session.follow())

    def _make_room(self, blocks: int, keep: set[str]) -> bool:
        """Drop the caches of sessions that do not wait, the longest unused first."""
        for session_id in [s for s in self._caches if s not in keep]:
            if self._block_manager.can_allocate(blocks):
                break
            self.close(session_id)
        return self._block_manager.can_allocate(blocks)

    def _run(self, drafts: Sequence[_Draft]) -> list[Tensor]:
        """One packed pass over every draft's pending tokens; logits [1, vocabulary] each."""
        if not drafts:
            return []
        segments = [Segment(d.pending, len(d.cache.tokens), d.cache.blocks, logits=1) for d in drafts]
        outputs = self._runner.run(segments)
        for draft in drafts:
            draft.cache.tokens += draft.pending
        return [output.logits for output in outputs]


def _choose(draft: _Draft, logits: Tensor) -> None:
    """Add the next guess: under the target's own noise when keyed, else a sample of a declared q."""
    session = draft.session
    if session.sampling.greedy:  # one-hot, in either mode
        plain = sampling.changes_nothing(session.sampling, draft.allowed)
        _add(draft, int((logits if plain else _adjusted(draft, logits))[0].argmax()), 1.0)
        return
    probs = sampling.probabilities(_adjusted(draft, logits), session.sampling)[0]
    position = len(session.tokens) + len(draft.token_ids)
    if session.mode is Mode.KEYED:
        token_id = sampling.choose(probs, session.noise_seed, position)
    else:
        distribution = sampling.draft_distribution(probs)
        token_id = sampling.choose_sparse(distribution, session.noise_seed, position)
        draft.distributions.append(distribution)
    _add(draft, token_id, float(probs[token_id]))


def _add(draft: _Draft, token_id: int, confidence: float) -> None:
    draft.token_ids.append(token_id)
    draft.confidences.append(confidence)
    draft.pending = [token_id]


def _adjusted(draft: _Draft, logits: Tensor) -> Tensor:
    """The logits as the target will adjust its own; without the grammar, where it takes too much here."""
    session = draft.session
    arguments = (logits, session.sampling, session.tokens, session.prompt_length, [draft.token_ids])
    try:
        return sampling.adjust(*arguments, allowed=draft.allowed)
    except InvalidRequest:
        session.allowed = draft.allowed = None
        return sampling.adjust(*arguments)


def _common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))
