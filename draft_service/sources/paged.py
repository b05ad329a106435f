"""A draft model run autoregressively on paged keys and values, for every session that waits."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from common import trees
from common.model.batch import Runner, Segment
from draft_service.session import Session
from draft_service.sources.base import NOTHING, Guess
from draft_service.sources.growing import Growth
from draft_service.sources.kv import Cache, Caches, common_prefix


@dataclass(slots=True, eq=False)
class _Draft:
    """One session's guesses in the making; ``pending`` are the committed tokens the next pass runs."""

    session: Session
    cache: Cache
    pending: list[int]
    growth: Growth


class PagedSource:
    """Any causal LM over the target's vocabulary: a smaller model, or the target cut short.

    All sessions that wait advance together, one packed pass per guess of a chain or level of a tree.
    """

    def __init__(
        self,
        name: str,
        runner: Runner,
        num_blocks: int,
        prefill_tokens: int,
        model_version: str,
        *,
        context_length: int = sys.maxsize,
    ) -> None:
        """
        Args:
            prefill_tokens, context_length: as of ``Caches``.
        """
        self.name = name
        self.model_version = model_version
        self._runner = runner
        self._caches = Caches(num_blocks, prefill_tokens, context_length)

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
        self._caches.close(session_id)

    def _prepare(self, session: Session, waiting: Sequence[Session]) -> _Draft | None:
        prepared = self._caches.prepare(session, waiting)
        return _Draft(session, *prepared, Growth(session)) if prepared else None

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
    return common_prefix(parents, trees.chain(len(parents)))
