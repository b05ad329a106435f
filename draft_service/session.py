"""What a draft knows of one session: the committed tokens and how the target samples."""

from __future__ import annotations

from dataclasses import dataclass, field

from common.types import Commit, Mode, Open, SamplingParams

_REMEMBERED_BLOCKS = 2


class OutOfSync(Exception):
    """A commit that does not continue what the draft has; the session must be opened again."""


@dataclass(slots=True, eq=False)
class Session:
    """
    Attributes:
        tokens: the committed tokens, prompt first.
        block_size: guesses wanted now; 0: none.
        proposed: the latest blocks by id, of which the next commit accepts a prefix.
    """

    session_id: str
    tokens: list[int]
    prompt_length: int
    sampling: SamplingParams
    mode: Mode
    noise_seed: int
    block_size: int
    publish: bool
    proposed: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def opened(cls, update: Open) -> Session:
        return cls(
            session_id=update.session_id,
            tokens=list(update.token_ids),
            prompt_length=update.prompt_length,
            sampling=update.sampling,
            mode=update.mode,
            noise_seed=update.noise_seed,
            block_size=update.block_size,
            publish=update.publish,
        )

    def commit(self, update: Commit) -> None:
        """Append what the target decided.

        Raises:
            OutOfSync: when the base differs or the block is not known.
        """
        if update.base_length != len(self.tokens):
            raise OutOfSync(f"commit at {update.base_length}, the draft holds {len(self.tokens)} tokens")
        block = self.proposed.get(update.block_id, ())
        if update.accepted > len(block):
            raise OutOfSync(f"{update.accepted} tokens accepted of block {update.block_id}, not one of ours")
        self.tokens += [*block[: update.accepted], *update.token_ids]
        self.proposed.clear()  # whatever else was proposed followed other tokens
        self.block_size = update.block_size

    def remember(self, block_id: int, token_ids: tuple[int, ...]) -> None:
        self.proposed[block_id] = token_ids
        while len(self.proposed) > _REMEMBERED_BLOCKS:
            del self.proposed[next(iter(self.proposed))]
