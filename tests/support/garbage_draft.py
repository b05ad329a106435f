"""A draft service whose guesses are noise: ``python -m tests.support.garbage_draft``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from common.config import load_or_exit
from common.draft_types import SparseDistribution
from common.lifecycle import run
from common.types import Mode
from draft_service.config import Config
from draft_service.server import serve_source
from draft_service.session import Session
from draft_service.sources.base import Guess

VOCABULARY = 49_152


class GarbageSource:
    """Uniform tokens; under rejection sampling with a q that they were not drawn from."""

    name = "garbage"
    model_version = "0"

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        return [self._guess(session) for session in sessions]

    def close(self, session_id: str) -> None:
        return

    def _guess(self, session: Session) -> Guess:
        token_ids = tuple(self._random.integers(0, VOCABULARY, session.block_size).tolist())
        if session.mode is Mode.KEYED:
            return Guess(token_ids)
        return Guess(token_ids, tuple(map(_lie, token_ids)))


def _lie(token_id: int) -> SparseDistribution:
    return SparseDistribution((token_id, (token_id + 1) % VOCABULARY), (0.125, 0.875))


if __name__ == "__main__":
    config = load_or_exit(Config, "draft")
    run("draft", serve_source(config, lambda config, folder: GarbageSource()), config.log_level)
