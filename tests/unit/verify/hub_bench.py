"""A hub with scripted links, and the engine's part played by hand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from common.draft_types import Block
from tests.support.scripted import DraftSession, Propose, ScriptedDrafts, ScriptedLink
from verify_service.drafts.hub import DraftHub
from verify_service.sequence import Sequence

VOCABULARY = 20
PROMPT = [1, 2, 3]


def counts_up(session: DraftSession) -> Block:
    return session.block([5] * session.block_size)


class Bench:
    """A hub with its scripted links, and the engine's part played by hand."""

    def __init__(
        self,
        by_address: Mapping[str, Propose],
        wait_seconds: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        self.drafts = ScriptedDrafts(by_address, clock)
        self.hub = DraftHub("fingerprint", VOCABULARY, wait_seconds, self.drafts.make_link, **options)

    def link(self, address: str = "a") -> ScriptedLink:
        return self.drafts.links[address]

    async def opened(self, sequence: Sequence) -> Block | None:
        """The first step's wait, and time for an answer."""
        await self.hub.wait([sequence])
        await asyncio.sleep(0.005)
        return self.hub.peek(sequence)

    def step(self, sequence: Sequence, accepted: int = 0) -> None:
        """Verify what has come: so many guesses stand, and the target's 9 follows."""
        self.judge(sequence, range(accepted))

    def judge(self, sequence: Sequence, nodes: Iterable[int]) -> None:
        """Verify what has come: these of its guesses stand, a path, and the target's 9 follows."""
        block = self.hub.take(sequence)
        base_length = len(sequence.tokens)
        standing = tuple(node for node in nodes if block and node < len(block.token_ids))
        sequence.tokens += [*(block.token_ids[node] for node in standing if block), 9]
        self.hub.commit(sequence, base_length, block, standing)


def updates(link: ScriptedLink, kind: type) -> list[object]:
    return [update for update in link.updates if isinstance(update, kind)]


async def seconds(bench: Bench, sequence: Sequence) -> float:
    started = time.monotonic()
    await bench.hub.wait([sequence])
    return time.monotonic() - started
