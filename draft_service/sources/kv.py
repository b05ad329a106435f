"""Which of a session's tokens a draft model has computed, and where their keys and values are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from common.model.block_manager import BlockManager
from draft_service.session import Session


@dataclass(slots=True, eq=False)
class Cache:
    """``tokens``: those whose keys and values are in ``blocks``."""

    tokens: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)

    def roll_back(self, tokens: Sequence[int]) -> None:
        """Keep what agrees with ``tokens``, but not the last of them: a pass needs a token to run."""
        del self.tokens[min(common_prefix(self.tokens, tokens), len(tokens) - 1) :]


class Caches:
    """One pool of KV blocks, shared by all sessions of a source.

    The KV of a rejected suffix is rolled back by keeping the part of the cache that agrees with the committed
    tokens.
    """

    def __init__(self, num_blocks: int, prefill_tokens: int, context_length: int = sys.maxsize) -> None:
        """
        Args:
            prefill_tokens: most tokens of a session that one pass takes in.
            context_length: most tokens, guesses included, that the model may be run on.
        """
        self._block_manager = BlockManager(num_blocks)
        self._prefill_tokens = prefill_tokens
        self._context_length = context_length
        self._caches: dict[str, Cache] = {}

    def prepare(self, session: Session, waiting: Sequence[Session]) -> tuple[Cache, list[int]] | None:
        """The session's cache, with room for a block of guesses, and the committed tokens to run next.

        None where the pool has no room for the session, or the model's context none for a block.
        """
        cache = self._caches.pop(session.session_id, None) or Cache()
        self._caches[session.session_id] = cache  # the latest used is the last to be evicted
        cache.roll_back(session.tokens)
        start = len(cache.tokens)
        pending = session.tokens[start : start + self._prefill_tokens]
        if len(session.tokens) + session.block_size > self._context_length:
            return None
        needed = BlockManager.blocks_for(start + len(pending) + session.block_size) - len(cache.blocks)
        if needed > 0:
            if not self._make_room(needed, {s.session_id for s in waiting}):
                return None
            cache.blocks += self._block_manager.allocate(needed, after=cache.blocks)
        return cache, pending

    def close(self, session_id: str) -> None:
        cache = self._caches.pop(session_id, None)
        if cache:
            self._block_manager.free(cache.blocks)

    def _make_room(self, blocks: int, keep: set[str]) -> bool:
        """Drop the caches of sessions that do not wait, the longest unused first."""
        for session_id in [s for s in self._caches if s not in keep]:
            if self._block_manager.can_allocate(blocks):
                break
            self.close(session_id)
        return self._block_manager.can_allocate(blocks)


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))
