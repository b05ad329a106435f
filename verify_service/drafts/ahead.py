"""Blocks that a draft sent before it was known whether they would be of use."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from common.draft_types import Block
from verify_service import metrics
from verify_service.drafts.control.trial import Trial

_REMEMBERED_SIZES = 8


@dataclass(frozen=True, slots=True)
class Waiting:
    """``size``: guesses that the draft was asked for."""

    block: Block
    size: int


@dataclass(slots=True)
class Waiters:
    """One session's blocks, each for a way in which the text may go on.

    Attributes:
        most: how many the draft may send before the next commit.
        blocks: those that may still be of use.
    """

    most: int = 0
    blocks: list[Waiting] = field(default_factory=list)
    _sizes: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_SIZES))

    @property
    def full(self) -> bool:
        return len(self.blocks) >= self.most

    def told(self, length: int, block_size: int, most: int) -> None:
        """The draft knows so many committed tokens, and may send so many blocks ahead, of such a size."""
        self.most = most
        self._sizes.append((length, block_size))

    def size_at(self, length: int) -> int | None:
        """What size a block has that a draft made when it knew so many tokens."""
        return next((size for told, size in reversed(self._sizes) if told == length), None)

    def add(self, block: Block, size: int) -> None:
        self.blocks.append(Waiting(block, size))

    def take(self, token_ids: Sequence[int]) -> Waiting | None:
        """The block for the case that just these tokens are committed, which they are now."""
        said = tuple(token_ids)
        found = next((waiting for waiting in self.blocks if waiting.block.assumed == said), None)
        self.blocks = [
            Waiting(replace(waiting.block, assumed=waiting.block.assumed[len(said) :]), waiting.size)
            for waiting in self.blocks
            if waiting is not found and waiting.block.assumed[: len(said)] == said
        ]
        return found

    def clear(self) -> None:
        self.most = 0
        self.blocks.clear()
        self._sizes.clear()


def still_assumed(block: Block, tokens: Sequence[int], told: int) -> tuple[int, ...] | None:
    """Of what ``block`` assumes the part that comes after the first ``told`` of the committed ``tokens``.

    None: the text went on otherwise, or the draft claims to know more than it was told.
    """
    root = block.base_length - len(block.assumed)
    if not 0 <= root <= told <= block.base_length:
        return None
    known, rest = block.assumed[: told - root], block.assumed[told - root :]
    return rest if known == tuple(tokens[root:told]) else None


class AheadPolicy:
    """How many blocks drafts may send ahead: none, one or the most, whichever makes the most tokens.

    Where a draft computes on the target's own cores, what it does ahead makes the target slower; across a
    wire it hides the way there and back. Nothing but the tokens per second says which it is.
    """

    def __init__(self, most: int = 0) -> None:
        """``most``: 0: never any."""
        self._ways = list(_ways(most))
        self._trial = Trial(len(self._ways))

    @property
    def blocks(self) -> int:
        return self._ways[self._trial.way]

    def observe_step(self, tokens: int, seconds: float) -> None:
        """A step without prefill, for which drafts were asked, took so long, waiting included."""
        self._trial.observe(tokens, seconds)
        metrics.AHEAD_BLOCKS.set(self._ways[self._trial.best])


def _ways(most: int) -> Iterator[int]:
    yield 0
    if most:
        yield 1
    if most > 1:
        yield most


def count_use(waiting: Waiting | None, verified: Block | None, accepted_nodes: tuple[int, ...]) -> None:
    """Whether what comes next was there; where not, it shows when it comes."""
    if waiting:
        last = accepted_nodes[-1] if accepted_nodes else -1
        full = verified is not None and last not in verified.tree
        metrics.AHEAD.labels("full" if full else "other").inc()
