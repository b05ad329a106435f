"""What a session must share with the source before it is let in, and what it may say later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from common import trees
from common.draft_types import Commit, Open
from common.errors import FingerprintMismatch, InvalidRequest

_LARGEST_BLOCK = 64
_LONGEST_TENANT = 64


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens a source knows, and how many of them a session may hold."""

    fingerprint: str
    size: int
    context_length: int

    def check_open(self, update: Open) -> None:
        """Raises FingerprintMismatch naming both vocabularies, or InvalidRequest."""
        if update.fingerprint != self.fingerprint or update.vocabulary_size != self.size:
            raise FingerprintMismatch(
                f"the target's vocabulary is {update.fingerprint} ({update.vocabulary_size} tokens), "
                f"the draft's is {self.fingerprint} ({self.size} tokens)"
            )
        if not 0 < len(update.token_ids) <= self.context_length:
            raise InvalidRequest(f"token_ids must hold 1 to {self.context_length} tokens", field="token_ids")
        self._check_ids(update.token_ids, "token_ids")
        self._check_ids(update.sampling.logit_bias, "logit_bias")
        self._check_ids(update.held_tokens, "held_tokens")
        _check_block_size(update.block_size)
        _check_tree_width(update.tree_width, least=1)
        if len(update.tenant) > _LONGEST_TENANT:
            raise InvalidRequest(f"tenant must have at most {_LONGEST_TENANT} characters", field="tenant")
        if update.publish and update.tree_width > 1:
            raise InvalidRequest("only chains are published", field="tree_width")
        if bool(update.hidden_layers) != bool(update.hidden_size):
            raise InvalidRequest("hidden_layers without hidden_size, or the reverse", field="hidden_layers")

    def check_commit(self, update: Commit) -> None:
        """Raises InvalidRequest."""
        self._check_ids(update.token_ids, "token_ids")
        _check_block_size(update.block_size)
        _check_tree_width(update.tree_width, least=0)
        if update.base_length + len(update.accepted_nodes) + len(update.token_ids) > self.context_length:
            raise InvalidRequest(f"more than {self.context_length} tokens", field="token_ids")

    def _check_ids(self, token_ids: Iterable[int], field: str) -> None:
        if any(not 0 <= token_id < self.size for token_id in token_ids):
            raise InvalidRequest(f"{field} has an id outside the vocabulary", field=field)


def _check_block_size(size: int) -> None:
    if size > _LARGEST_BLOCK:
        raise InvalidRequest(f"block_size must be at most {_LARGEST_BLOCK}", field="block_size")


def _check_tree_width(width: int, least: int) -> None:
    if not least <= width <= trees.MAX_WIDTH:
        raise InvalidRequest(f"tree_width must be between {least} and {trees.MAX_WIDTH}", field="tree_width")
