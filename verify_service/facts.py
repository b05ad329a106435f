"""What a fact check says about one answer: spans to veto before acceptance, flags on what was delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from common.draft_types import Block
from common.streams import LAST_BLOCK, Flag, TagRecord
from common.types import Annotation, FactCheck

_MOST_BLOCKS = 64

_Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _DraftedFlag:
    """A flag with where in the sequence its claim stands, and the tokens of it that were drafted, from
    ``drafted_at`` on; what is before them was committed."""

    start: int
    end: int
    drafted_at: int
    token_ids: tuple[int, ...]
    flag: Flag

    def delivered(self, tokens: Sequence[int]) -> bool:
        return tuple(tokens[self.drafted_at : self.end]) == self.token_ids


class FactCheckSession:
    """Blocks of one answer on one side, verdicts on the other, matched in whichever order they come.

    Both are kept for the latest blocks only. What the target itself wrote is judged too: a verdict speaks of
    committed text before its block where no earlier one has, and the last verdict of that alone.
    """

    def __init__(self, mode: FactCheck) -> None:
        self.mode = mode
        self._blocks: dict[_Key, Block] = {}
        self._tags: dict[_Key, TagRecord] = {}
        self._decided: dict[_Key, None] = {}
        self._flags: list[_DraftedFlag] = []
        self._said: dict[tuple[int, int, str], None] = {}
        self._changed = asyncio.Event()

    def add_block(self, block: Block) -> None:
        """A block has come from a draft and its verdict is on the way."""
        self._blocks[block.block_id, block.base_length] = block
        self._match((block.block_id, block.base_length))

    def expect_last(self, length: int) -> None:
        """The answer is over, with so many tokens, and a last verdict is on the way."""
        self.add_block(Block(LAST_BLOCK, length, ()))

    def add_tag(self, tag: TagRecord) -> bool:
        """False: it came after its block was decided on."""
        key = tag.block_id, tag.base_length
        self._tags[key] = tag
        self._match(key)
        return key not in self._decided

    def decide(self, block: Block) -> None:
        """The block is verified now, with the verdict that is there."""
        self._decided[block.block_id, block.base_length] = None
        _bound(self._decided)

    def _match(self, key: _Key) -> None:
        block, tag = self._blocks.get(key), self._tags.get(key)
        if block and tag:
            for flag in tag.flags:
                self._add_flag(block, flag)
            del self._blocks[key]
            self._changed.set()
        _bound(self._blocks)
        _bound(self._tags)
        del self._flags[:-_MOST_BLOCKS]

    def _add_flag(self, block: Block, flag: Flag) -> None:
        """Note where a claim stands, and what of it was drafted."""
        first, end = max(flag.first_token, 0), min(max(flag.end_token, 0), len(block.token_ids))
        start = block.base_length + min(flag.first_token, len(block.token_ids))
        drafted = block.token_ids[first:end]
        stop = block.base_length + (end if drafted else min(flag.end_token, 0))
        if start < stop:
            self._flags.append(_DraftedFlag(max(start, 0), stop, stop - len(drafted), drafted, flag))

    def has_tag(self, block: Block) -> bool:
        return (block.block_id, block.base_length) in self._tags

    def flags(self, block: Block) -> tuple[Flag, ...]:
        """Those that have come."""
        tag = self._tags.get((block.block_id, block.base_length))
        return tag.flags if tag else ()

    def veto(self, block: Block) -> Block:
        """The block up to its first flagged token: from there the target decides."""
        starts = [max(0, flag.first_token) for flag in self.flags(block) if flag.end_token > 0]
        return block.prefix(min(starts)) if starts else block

    def annotations(self, tokens: Sequence[int], prompt_length: int) -> tuple[Annotation, ...]:
        """Flags whose claim has been delivered word for word since the last call, whoever wrote it."""
        ready = [f for f in self._flags if f.end <= len(tokens)]
        self._flags = [f for f in self._flags if f.end > len(tokens)]
        return tuple(
            Annotation(
                first_token=max(f.start - prompt_length, 0),
                token_count=f.end - max(f.start, prompt_length),
                text=f.flag.text,
                verdict="contradicted",
                rule=f.flag.rule,
                evidence=f.flag.evidence,
            )
            for f in ready
            if f.end > prompt_length and f.delivered(tokens) and self._is_new(f)
        )

    def _is_new(self, found: _DraftedFlag) -> bool:
        """Whether it was not annotated yet: a claim may be drafted in several blocks, and then committed."""
        claim = (found.start, found.end, found.flag.rule)
        if claim in self._said:
            return False
        self._said[claim] = None
        _bound(self._said)
        return True

    async def settle(self, timeout_seconds: float) -> None:
        """Wait for the verdicts still outstanding, so that a last block's flags are not lost."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while self._blocks:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return


def _bound(kept: dict[Any, Any]) -> None:
    """Only the latest stay."""
    while len(kept) > _MOST_BLOCKS:
        del kept[next(iter(kept))]
