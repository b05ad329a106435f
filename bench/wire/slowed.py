"""A stack behind a slow wire, as a contestant of a race."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench import measure
from bench.peers.contestant import Answered, Contestant, Row
from bench.wire.proxy import SlowWire
from tandem.local import LocalStack

_WAITED = "tandem_verify_step_seconds_sumwait"
_BLOCKS = ("tandem_draft_blocks_totalverified", "tandem_draft_blocks_totalempty")


@dataclass
class Spent:
    """What became of the time, one entry for each turn.

    Attributes:
        waits: seconds that a block was waited for, the mean of the turn.
        one_way: seconds that something was really under way, the mean of the turn.
    """

    waits: list[float] = field(default_factory=list)
    one_way: list[float] = field(default_factory=list)

    @property
    def wait(self) -> float:
        return statistics.median(self.waits)

    @property
    def round_trip(self) -> float:
        return 2 * statistics.median(self.one_way)


class Slowed:
    """Writes down what became of the time of its turns."""

    def __init__(self, row: Row, inner: Contestant, stack: LocalStack, wire: SlowWire) -> None:
        """
        Args:
            inner: what asks the stack.
        """
        self.row = row
        self.spent = Spent()
        self._inner = inner
        self._stack = stack
        self._wire = wire

    async def answer(self, prompts: Sequence[str], streams: int, max_tokens: int) -> Answered:
        self._wire.held_seconds, self._wire.held_chunks = 0.0, 0
        before = await measure.scrape(self._stack)
        answered = await self._inner.answer(prompts, streams, max_tokens)
        self.spent.waits.append(wait_per_block(before, await measure.scrape(self._stack)))
        self.spent.one_way.append(self._wire.held_seconds / max(self._wire.held_chunks, 1))
        return answered

    async def prefill(self, token_ids: Sequence[int]) -> float:
        return await self._inner.prefill(token_ids)


def wait_per_block(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """Seconds, between two of ``measure.scrape`` with one stream.

    Not per step: until a session's first block is there, which a slow wire delays, no step waits.
    """
    blocks = sum(after[name] - before[name] for name in _BLOCKS)
    return (after[_WAITED] - before[_WAITED]) / max(blocks, 1)
