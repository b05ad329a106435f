"""A scripted target: a tokenizer, what the target says, and the runner that says it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from common.model.batch import Move, Output, Segment
from common.model.block_manager import BLOCK_SIZE
from common.model.tokenizer import Tokenizer
from common.types import Message

EOS = 0
ALPHABET: tuple[str | bytes, ...] = (*"abcdefghijklmnopqrstuvwxyz .,!?0123456789\n:", b"\xc3", b"\xa9")
"""Single characters, and an e with an acute accent in two halves."""

_FIRST_ROOT = 0x5EED
_GATE_SECONDS = 20.0

Target = Callable[[tuple[int, ...]], Tensor]
"""The next token's logits, [vocabulary], after a prefix of tokens."""


class CharTokenizer:
    """Stands in for ``Tokenizer``: id 0 ends an answer and has no text, every other id has the given one."""

    fingerprint = "scripted"
    special_ids = frozenset({EOS})

    def __init__(self, pieces: Sequence[str | bytes] = ALPHABET) -> None:
        encoded = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
        self._pieces = [b"", *encoded]
        self._ids = {piece: index for index, piece in enumerate(self._pieces)}

    def __len__(self) -> int:
        return len(self._pieces)

    def ids(self, *pieces: str | bytes) -> list[int]:
        """The ids of pieces given one by one."""
        return [self._ids[piece.encode() if isinstance(piece, str) else piece] for piece in pieces]

    def encode(self, text: str) -> list[int]:
        """The longest piece first."""
        rest, ids = text.encode(), []
        while rest:
            piece = next(rest[:n] for n in range(len(rest), 0, -1) if rest[:n] in self._ids)
            ids.append(self._ids[piece])
            rest = rest[len(piece) :]
        return ids

    def encode_conversation(self, messages: Sequence[Message]) -> list[int]:
        return self.encode("".join(f"{message.role}: {message.content}\n" for message in messages))

    def token_bytes(self, token_id: int) -> bytes:
        return self._pieces[token_id]

    def decode(self, token_ids: Sequence[int]) -> str:
        return b"".join(self._pieces[token_id] for token_id in token_ids).decode(errors="replace")


def as_tokenizer(tokenizer: CharTokenizer) -> Tokenizer:
    return cast(Tokenizer, tokenizer)


class Script:
    """A target that continues each prompt with its answer, and after it with filler, greedily."""

    def __init__(self, vocabulary_size: int) -> None:
        self.vocabulary_size = vocabulary_size
        self._paths: list[tuple[int, ...]] = []

    def add(self, prompt: Sequence[int], answer: Sequence[int]) -> None:
        self._paths.append((*prompt, *answer))

    def next(self, prefix: Sequence[int]) -> int:
        known = tuple(prefix)
        for path in self._paths:
            if len(path) > len(known) and path[: len(known)] == known:
                return path[len(known)]
        return 1 + hash(known) % (self.vocabulary_size - 1)

    def continuation(self, prefix: Sequence[int], count: int) -> list[int]:
        tokens = list(prefix)
        for _ in range(count):
            tokens.append(self.next(tokens))
        return tokens[len(prefix) :]

    def __call__(self, prefix: tuple[int, ...]) -> Tensor:
        logits = torch.zeros(self.vocabulary_size)
        logits[self.next(prefix)] = 30.0
        return logits

    def on_path(self, prefix: Sequence[int]) -> bool:
        """Whether the target itself could have got here."""
        known = tuple(prefix)
        for path in self._paths:
            shorter = min(len(path), len(known))
            if path[:shorter] == known[:shorter]:
                return all(self.next(known[:end]) == known[end] for end in range(shorter, len(known)))
        return False


@dataclass(frozen=True, slots=True)
class _Written:
    token_id: int
    before: int
    history: int


class ScriptedRunner:
    """The engine's ``Runner``. It knows a sequence only by what earlier passes wrote into its blocks, so a
    wrong start, block, move or truncation is an AssertionError, and so is a write to what others use.

    A cleared ``gate`` holds a pass up before it begins; ``inside`` says whether one is held up.
    """

    def __init__(
        self,
        target: Target,
        num_blocks: int,
        *,
        is_committed: Callable[[Sequence[int]], bool] | None = None,
        is_shared: Callable[[int], bool] = lambda _: False,
    ) -> None:
        """
        Args:
            is_committed: whether a prefix is one that the target itself would have come to.
            is_shared: whether a block is one that others may read, now or later.
        """
        self._target = target
        self._num_blocks = num_blocks
        self._is_committed = is_committed
        self._is_shared = is_shared
        self._written: dict[int, _Written] = {}
        self.passes: list[list[Segment]] = []
        self.moves: list[list[Move]] = []
        self.pause_seconds = 0.0
        self.row_seconds = 0.0
        self.gate = threading.Event()
        self.gate.set()
        self.inside = False
        self.fail_next = False

    def run(self, segments: Sequence[Segment], moves: Sequence[Move] = ()) -> list[Output]:
        """Keeps every token with the history it follows, and notices one that is read after another."""
        self.inside = True
        self.gate.wait(_GATE_SECONDS)
        self.inside = False
        rows = sum(len(segment.token_ids) for segment in segments)
        time.sleep(self.pause_seconds + rows * self.row_seconds)
        self.passes.append(
            [Segment(list(s.token_ids), s.start, list(s.blocks), s.logits, s.parents) for s in segments]
        )
        self.moves.append(list(moves))
        if self.fail_next:
            self.fail_next = False
            raise RuntimeError("the scripted target was told to fail")
        self._check_blocks(segments)
        self._move(moves)
        return [Output(self._run(segment)) for segment in segments]

    @property
    def pass_sizes(self) -> list[int]:
        return [sum(len(segment.token_ids) for segment in segments) for segments in self.passes]

    def _check_blocks(self, segments: Sequence[Segment]) -> None:
        used = Counter(block for segment in segments for block in segment.blocks)
        assert all(0 <= block < self._num_blocks for block in used), "no such block"
        for segment in segments:
            assert len(set(segment.blocks)) == len(segment.blocks), "a block twice in one sequence"
            end = segment.start + len(segment.token_ids)
            for block in segment.blocks[segment.start // BLOCK_SIZE : -(-end // BLOCK_SIZE)]:
                assert used[block] == 1, "a pass writes to a block that another of its sequences uses"
                assert not self._is_shared(block), "a pass writes to a block that others may read"

    def _run(self, segment: Segment) -> Tensor:
        count = len(segment.token_ids)
        assert count > 0
        assert 0 <= segment.logits <= count
        assert len(segment.blocks) * BLOCK_SIZE >= segment.start + count, "too few blocks"
        seen = [self._read(segment)]  # first what the segment follows, then what each of its tokens ends
        rows = []
        for index, (token_id, parent) in enumerate(zip(segment.token_ids, _parents(segment), strict=True)):
            prefix, before = seen[parent + 1]
            prefix, history = [*prefix, token_id], hash((before, token_id))
            self._written[_slot(segment, segment.start + index)] = _Written(token_id, before, history)
            seen.append((prefix, history))
            if index == 0 and self._is_committed:
                assert self._is_committed(prefix), f"computed on after {prefix}, which was never committed"
            if count - index <= segment.logits:
                rows.append(self._target(tuple(prefix)))
        return torch.stack(rows) if rows else torch.empty(0)

    def _move(self, moves: Sequence[Move]) -> None:
        assert len({move.target for move in moves}) == len(moves), "two tokens are moved to one place"
        found = [self._written.get(move.source) for move in moves]
        for move, written in zip(moves, found, strict=True):
            assert written is not None, f"slot {move.source} was never written"
            self._written[move.target] = written

    def _read(self, segment: Segment) -> tuple[list[int], int]:
        tokens, history = [], _FIRST_ROOT
        for position in range(segment.start):
            written = self._written.get(_slot(segment, position))
            assert written is not None, f"position {position} was never written"
            assert written.before == history, f"position {position} holds another sequence's or stale tokens"
            tokens.append(written.token_id)
            history = written.history
        return tokens, history


def _parents(segment: Segment) -> list[int]:
    """Of each token the one it follows: for a chain, and for what comes before a tree, the one before."""
    first = len(segment.token_ids) - len(segment.parents)
    assert first > 0 or not segment.parents, "a tree whose root is not in the segment"
    for node, parent in enumerate(segment.parents):
        assert -1 <= parent < node, "no tree"
    return [*range(-1, first - 1), *(first + parent for parent in segment.parents)]


def _slot(segment: Segment, position: int) -> int:
    return segment.blocks[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE
