"""How one answer goes, noted as it does."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from common.draft_types import Block
from common.feedback import Drafted
from common.types import DraftEndpoint
from verify_service.drafts.control.base import Outcome
from verify_service.tracing import Beliefs

MOST_COMPARED_TOKENS = 256
_MOST_POSITIONS = 64
_MOST_REPLICAS = 8


@dataclass(slots=True)
class Spent:
    """Tokens that steps of one kind delivered, and the answer's share of their seconds."""

    tokens: int = 0
    seconds: float = 0.0

    def add(self, tokens: int, seconds: float) -> None:
        self.tokens += tokens
        self.seconds += seconds


@dataclass(slots=True)
class DraftNotes:
    """Of one draft replica; see ``common.feedback.Drafted``."""

    endpoint: DraftEndpoint
    blocks: int = 0
    bad_blocks: int = 0
    missed_waits: int = 0
    seconds: float = 0.0
    offered: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)

    def observe(self, outcome: Outcome) -> None:
        self.seconds += outcome.waited or 0.0
        if outcome.offered is None:
            self.missed_waits += 1
            return
        self.blocks += outcome.offered > 0
        for place in outcome.places:
            if place.guesses and place.depth < _MOST_POSITIONS:
                self._count(place.depth, place.accepted is not None)

    def _count(self, position: int, accepted: bool) -> None:
        missing = position + 1 - len(self.offered)
        self.offered += [0] * missing
        self.accepted += [0] * missing
        self.offered[position] += 1
        self.accepted[position] += accepted

    def record(self) -> Drafted:
        return Drafted(
            self.endpoint.name,
            self.endpoint.address,
            self.blocks,
            self.bad_blocks,
            self.missed_waits,
            self.seconds,
            tuple(self.offered),
            tuple(self.accepted),
        )


class Notes:
    """
    Attributes:
        sampled: what costs more is noted too: how likely the target finds the answer, and what was drafted.
        guessed: blocks as they came, with the positions of the text that they were to be, so many tokens.
    """

    def __init__(self, sampled: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.sampled = sampled
        self.plain, self.speculated = Spent(), Spent()
        self.log_probability, self.scored_tokens = 0.0, 0
        self.guessed: list[Block] = []
        self._compared = 0
        self._clock = clock
        self._started = clock()
        self._first_token: float | None = None
        self._drafts: dict[str, DraftNotes] = {}

    @property
    def drafts(self) -> Seq[DraftNotes]:
        return list(self._drafts.values())

    @property
    def first_token_seconds(self) -> float:
        """0: none came."""
        return 0.0 if self._first_token is None else self._first_token - self._started

    @property
    def total_seconds(self) -> float:
        return self._clock() - self._started

    def step(self, tokens: int, guesses: int, seconds: float) -> None:
        """A step delivered tokens; ``seconds`` is the answer's share of it. The first one, which is the end
        of prefill, is not decoding."""
        if self._first_token is None:
            self._first_token = self._clock()
            return
        (self.speculated if guesses else self.plain).add(tokens, seconds)

    def score(self, believed: Beliefs, delivered: int) -> None:
        """The target's probabilities of the first ``delivered`` tokens that a step decided."""
        p = [*(believed.guesses[node] for node in believed.verdict.nodes), believed.token][:delivered]
        self.log_probability += sum(math.log(max(value, 1e-30)) for value in p)
        self.scored_tokens += len(p)

    def draft(self, endpoint: DraftEndpoint) -> DraftNotes:
        """Notes on a replica; beyond a few, those on the last one are shared."""
        if endpoint.address not in self._drafts and len(self._drafts) >= _MOST_REPLICAS:
            return self._drafts[next(reversed(self._drafts))]
        return self._drafts.setdefault(endpoint.address, DraftNotes(endpoint))

    def compare(self, block: Block) -> None:
        """A block that came, to be compared with what the answer says there."""
        if self.sampled and block.token_ids and self._compared < MOST_COMPARED_TOKENS:
            self.guessed.append(block)
            self._compared += len(block.token_ids)
