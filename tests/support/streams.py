"""Random traffic for a runner: sequences in chunks and blocks of guesses, in blocks of KV anywhere."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from common.model.batch import Output, Runner, Segment
from common.model.block_manager import BLOCK_SIZE, BlockManager
from tests.support.models import reference_logits

NUM_BLOCKS = 64


@dataclass
class Stream:
    """One sequence on its way through a runner: ``computed`` of its ``tokens`` are in its blocks."""

    tokens: list[int]
    computed: int = 0
    blocks: list[int] = field(default_factory=list)


class Scattered:
    """Gives out blocks so that a sequence's are hardly ever neighbours."""

    def __init__(self, chance: random.Random) -> None:
        self._free = list(range(NUM_BLOCKS))
        chance.shuffle(self._free)

    def reserve(self, stream: Stream, tokens: int) -> None:
        while len(stream.blocks) * BLOCK_SIZE < tokens:
            stream.blocks.append(self._free.pop())


class Neighbouring:
    def __init__(self, chance: random.Random) -> None:
        self._manager = BlockManager(NUM_BLOCKS)

    def reserve(self, stream: Stream, tokens: int) -> None:
        needed = BlockManager.blocks_for(tokens) - len(stream.blocks)
        if needed > 0:
            stream.blocks += self._manager.allocate(needed, after=stream.blocks)


Pool = Scattered | Neighbouring


@dataclass
class Traffic:
    """
    Attributes:
        guesses: most behind a sequence's last token; any number up to it, any number of them right.
    """

    chance: random.Random
    pool: Pool
    guesses: int
    vocabulary: int

    def token_ids(self, count: int) -> list[int]:
        return token_ids(self.chance, count, self.vocabulary)

    def next_tokens(self, stream: Stream) -> list[int]:
        """A chunk of the prompt, or the last token with guesses."""
        left = stream.tokens[stream.computed :]
        if len(left) > 1 and self.chance.random() < 0.6:
            return left[: self.chance.randint(1, min(len(left), 24))]
        block = left[: self.chance.randint(1, self.guesses + 1)]
        return block + self.token_ids(self.chance.randint(0, self.guesses + 1 - len(block)))

    def segment(self, stream: Stream) -> Segment:
        tokens = self.next_tokens(stream)
        self.pool.reserve(stream, stream.computed + len(tokens))
        logits = self.chance.randint(0, len(tokens))
        return Segment(tokens, stream.computed, list(stream.blocks), logits=logits)

    def run(self, runner: Runner, streams: Sequence[Stream]) -> Iterator[tuple[Stream, Segment, Output]]:
        """Passes over some of the streams at a time, until all of their tokens are computed."""
        while unfinished := [stream for stream in streams if stream.computed < len(stream.tokens)]:
            chosen = self.chance.sample(unfinished, self.chance.randint(1, len(unfinished)))
            segments = [self.segment(stream) for stream in chosen]
            for stream, segment, output in zip(chosen, segments, runner.run(segments), strict=True):
                yield stream, segment, output
                accept(stream, segment)


def token_ids(chance: random.Random, count: int, vocabulary: int) -> list[int]:
    return [chance.randrange(vocabulary) for _ in range(count)]


def right(stream: Stream, segment: Segment) -> int:
    """How many of the segment's first tokens agree with the sequence."""
    truth = stream.tokens[segment.start :]
    agree = [ours == theirs for ours, theirs in zip(segment.token_ids, truth, strict=False)]
    return [*agree, False].index(False)


def accept(stream: Stream, segment: Segment) -> None:
    """Keep the tokens that agree with the sequence; the rest is overwritten by the next pass."""
    stream.computed += right(stream, segment)


def expected_logits(model: Any, stream: Stream, segment: Segment) -> Tensor:
    """transformers' own, of the sequence as far as the segment goes, its wrong guesses included."""
    whole = [*stream.tokens[: segment.start], *segment.token_ids]
    return reference_logits(model, whole, attention="eager")[len(whole) - segment.logits :]
