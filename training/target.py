"""The model whose answers a head learns to foresee."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from common.model import loading, store
from common.model.batch import Runner
from common.model.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Target:
    """``name``: as the services know it; ``folder``: where its files are."""

    name: str
    folder: str
    tokenizer: Tokenizer
    threads: int

    @property
    def layers(self) -> int:
        return int(store.load_config(self.folder).num_hidden_layers)

    @staticmethod
    def of(name: str, threads: int) -> Target:
        """``threads``: 0: one per core."""
        folder = store.resolve(name)
        tokenizer = Tokenizer(store.load_tokenizer(folder), store.eos_token_ids(folder))
        return Target(name, folder, tokenizer, threads or os.cpu_count() or 1)

    def runner(self, num_blocks: int, hidden_layers: Sequence[int] = ()) -> Runner:
        wanted = loading.Wanted(
            self.name, num_blocks, self.threads, device="cpu", hidden_layers=tuple(hidden_layers)
        )
        return loading.load(wanted).runner
