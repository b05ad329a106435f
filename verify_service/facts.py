"""What a fact check says about one answer: spans to veto before acceptance, flags on what was delivered."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from common.draft_types import Block
from common.streams import Flag, TagRecord
from common.types import Annotation, FactCheck

_MOST_BLOCKS = 64

_Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _DraftedFlag:
    """A flag with where in the sequence its claim would stand, and the tokens it was drafted as."""

    start: int
    token_ids: tuple[int, ...]
    flag: Flag


class FactCheckSession:
    """Blocks of one answer on one side, verdicts on the other, matched in whichever order they come.

    Both are kept for the latest blocks only.
    """

    def __init__(self, mode: FactCheck) -> None:
        self.mode = mode
        self._blocks: OrderedDict[_Key, Block] = OrderedDict()
        self._tags: OrderedDict[_Key, TagRecord] = OrderedDict()
        self._flags: list[_DraftedFlag] = []
        self._seen: dict[tuple[int, tuple[int, ...], str], None] = {}
        self._changed = asyncio.Event()

    def add_block(self, block: Block) -> None:
        """A block has come from a draft and its verdict is on the way."""
        self._blocks[block.block_id, block.base_length] = block
        self._match((block.block_id, block.base_length))

    def add_tag(self, tag: TagRecord) -> None:
        self._tags[tag.block_id, tag.base_length] = tag
        self._match((tag.block_id, tag.base_length))

    def _match(self, key: _Key) -> None:
        block, tag = self._blocks.get(key), self._tags.get(key)
        if block and tag:
            for flag in tag.flags:
                self._add_flag(block, flag)
            del self._blocks[key]
            self._changed.set()
        for kept in (self._blocks, self._tags):
            while len(kept) > _MOST_BLOCKS:
                kept.popitem(last=False)
        del self._flags[:-_MOST_BLOCKS]

    def _add_flag(self, block: Block, flag: Flag) -> None:
        """Note a claim once, in however many blocks it is drafted."""
        first = max(flag.first_token, 0)
        drafted = _DraftedFlag(block.base_length + first, block.token_ids[first : flag.end_token], flag)
        claim = (drafted.start, drafted.token_ids, flag.rule)
        if claim not in self._seen:
            self._seen[claim] = None
            self._flags.append(drafted)
        while len(self._seen) > _MOST_BLOCKS:
            del self._seen[next(iter(self._seen))]

    def has_tag(self, block: Block) -> bool:
        return (block.block_id, block.base_length) in self._tags

    def veto(self, block: Block) -> Block:
        """The block up to its first flagged token: from there the target decides."""
        tag = self._tags.get((block.block_id, block.base_length))
        if tag is None or not tag.flags:
            return block
        keep = max(0, min(flag.first_token for flag in tag.flags))
        return block.prefix(keep)

    def annotations(self, tokens: Sequence[int], prompt_length: int) -> tuple[Annotation, ...]:
        """Flags whose claim has been delivered word for word since the last call, whoever wrote it."""
        ready = [f for f in self._flags if f.start + len(f.token_ids) <= len(tokens)]
        self._flags = [f for f in self._flags if f.start + len(f.token_ids) > len(tokens)]
        return tuple(
            Annotation(
                first_token=f.start - prompt_length,
                token_count=len(f.token_ids),
                text=f.flag.text,
                verdict="contradicted",
                rule=f.flag.rule,
                evidence=f.flag.evidence,
            )
            for f in ready
            if f.token_ids and tuple(tokens[f.start : f.start + len(f.token_ids)]) == f.token_ids
        )

    async def settle(self, timeout_seconds: float) -> None:
        """Wait for the verdicts still outstanding, so that a last block's flags are not lost."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while self._blocks:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return
