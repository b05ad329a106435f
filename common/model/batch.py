"""What goes into a packed pass and what comes out: the one interface of every model runner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Segment:
    """The tokens of one sequence that a pass computes.

    Attributes:
        token_ids: the tokens, the first at position ``start``; everything before is in the KV blocks.
        blocks: the sequence's KV blocks, enough for ``start + len(token_ids)`` tokens.
        logits: how many of the last tokens need logits.
        parents: empty for a chain. Else the last ``len(parents)`` tokens are the nodes of a tree below the
            token before them: ``parents[i]``, below i, is the node that node i follows, -1 the token before.
            A node sees its ancestors alone; its keys and values lie where its place in ``token_ids`` says,
            its position is that of its depth.
        hidden: whether the hidden states of all its tokens are wanted.
    """

    token_ids: Sequence[int]
    start: int
    blocks: Sequence[int]
    logits: int
    parents: Sequence[int] = ()
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """Copy one token's keys and values, in every layer, before a pass: slots are positions in the pool."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Output:
    """
    Attributes:
        logits: [segment.logits, vocabulary].
        hidden: [tokens, layers asked for * hidden size], where the segment wanted them.
    """

    logits: Tensor
    hidden: Tensor | None = None


class Runner(Protocol):
    """A model with its KV pool."""

    def run(self, segments: Sequence[Segment], moves: Sequence[Move] = ()) -> list[Output]:
        """One pass, after ``moves``; all of their sources are read before any target is written."""
        ...
