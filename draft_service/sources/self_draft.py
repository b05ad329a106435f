"""Self-speculation: the target's first layers with its own head (Zhang et al. 2023, "Draft & Verify")."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from common import trees
from common.model import loading
from common.model.batch import Runner, Segment
from common.model.block_manager import BlockManager
from draft_service.config import Config
from draft_service.session import Session
from draft_service.sources.base import NOTHING, Guess
from draft_service.sources.growing import Growth


def make(config: Config, folder: str) -> SelfSource:
    num_blocks = BlockManager.blocks_for(config.kv_tokens)
    wanted = loading.Wanted(
        config.model,
        num_blocks,
        threads=config.threads or os.cpu_count() or 1,
        weights=config.weights,
        backend=config.backend,
        device=config.device,
        layers=config.layers,
    )
    runner = loading.load(wanted).runner
    return SelfSource(runner, num_blocks, config.prefill_tokens, f"first-{config.layers}-layers")


@dataclass(slots=True, eq=False)
class _Cache:
    """``tokens``: those whose keys and values are in ``blocks``."""

    tokens: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Draft:
    """One session's guesses in the making; ``pending`` are the committed tokens the next pass runs."""

    session: Session
    cache: _Cache
    pending: list[int]
    growth: Growth


class SelfSource:
    """Any causal LM over the target's vocabulary, run autoregressively; here the target, cut short.

    All sessions that wait advance together, one packed pass per guess of a chain or level of a tree. The KV
    of a rejected suffix is rolled back by keeping the part of the cache that agrees with the committed
    tokens.
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
        for draft, logits in zip(drafts, self._catch_up(drafts), strict=True):
            if len(draft.cache.tokens) < len(draft.session.tokens):
                results[draft.session] = None
            else:
                draft.growth.plant(logits[0])
                active.append(draft)
        while growing := [draft for draft in active if not draft.growth.finished]:
            for draft, logits in zip(growing, self._ask(growing), strict=True):
                draft.growth.grow(logits)
        for draft in active:
            results[draft.session] = draft.growth.guess()
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
        return _Draft(session, cache, pending, Growth(session))

    def _make_room(self, blocks: int, keep: set[str]) -> bool:
        """Drop the caches of sessions that do not wait, the longest unused first."""
        for session_id in [s for s in self._caches if s not in keep]:
            if self._block_manager.can_allocate(blocks):
                break
            self.close(session_id)
        return self._block_manager.can_allocate(blocks)

    def _catch_up(self, drafts: Sequence[_Draft]) -> list[Tensor]:
        """One packed pass over every draft's pending tokens; logits [1, vocabulary] each."""
        if not drafts:
            return []
        segments = [Segment(d.pending, len(d.cache.tokens), d.cache.blocks, logits=1) for d in drafts]
        outputs = self._runner.run(segments)
        for draft in drafts:
            draft.cache.tokens += draft.pending
        return [output.logits for output in outputs]

    def _ask(self, drafts: Sequence[_Draft]) -> list[Tensor]:
        """One packed pass over every draft's questions; logits [tokens, vocabulary] each."""
        segments = []
        for draft in drafts:
            cache, (token_ids, parents) = draft.cache, draft.growth.questions()
            if parents:
                del cache.tokens[len(draft.session.tokens) :]
            segments.append(Segment(token_ids, len(cache.tokens), cache.blocks, len(token_ids), parents))
            # Of a tree only what runs down its first slots lies where the committed tokens will.
            cache.tokens += token_ids[: _trunk(parents)] if parents else token_ids
        return [output.logits for output in self._runner.run(segments)]


def _trunk(parents: Sequence[int]) -> int:
    """How many of a tree's first nodes each follow the one before."""
    return _common_prefix(parents, trees.chain(len(parents)))


def _common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))
