"""One request on its way through the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from common.allowed import Allowed
from common.errors import TandemError
from common.model.batch import Move
from common.model.block_manager import BLOCK_SIZE
from common.states import StateTail
from common.types import GenerateEvent, GenerateRequest, Mode, SpeculationStats
from verify_service.acceptance.lossy import Policy
from verify_service.facts import FactCheckSession
from verify_service.feedback.notes import Notes
from verify_service.output import Output
from verify_service.tracing import Recorder
from verify_service.validators.answer import Vetted


@dataclass(slots=True, eq=False)
class Sequence:
    """
    Attributes:
        tokens: prompt and committed output.
        max_length: ``tokens`` never grows beyond it.
        block_size: guesses asked for per block; 0: no speculation.
        tree_width: most guesses that may follow the same text; 1: chains.
        validators: whom its blocks are shown before they are verified; None: nobody.
        allowed: which tokens may come next; None: all.
        blocks: KV blocks, in order.
        num_computed: tokens whose keys and values are in those blocks, once ``moves`` are made.
        moves: copies to make before the next pass, among the slots that the last one wrote.
        block_names: of its full blocks, as far as they were needed; see ``PrefixHasher``.
        num_remembered: how many of its blocks are known by their names.
        cached_tokens: those that were computed already when it joined the batch; None: it did not yet.
        policy: judges guesses in place of ``mode``; None: lossless.
        trace: notes how the answer comes to be; None: nobody asked.
        notes: how it goes, for the feedback.
        states: hidden states of its latest computed positions; None: nobody reads them.
        last_pass: the number of the last pass it was part of.
        events: at most one per step, so never more than the tokens of the answer and a few.
    """

    session_id: str
    request: GenerateRequest
    tokens: list[int]
    prompt_length: int
    max_length: int
    mode: Mode
    seed: int
    block_size: int
    output: Output
    tree_width: int = 1
    facts: FactCheckSession | None = None
    validators: Vetted | None = None
    allowed: Allowed | None = None
    policy: Policy | None = None
    trace: Recorder | None = None
    notes: Notes = field(default_factory=Notes)
    blocks: list[int] = field(default_factory=list)
    num_computed: int = 0
    moves: list[Move] = field(default_factory=list)
    block_names: list[bytes] = field(default_factory=list)
    num_remembered: int = 0
    cached_tokens: int | None = None
    states: StateTail | None = None
    last_pass: int = 0
    finished: bool = False
    stats: SpeculationStats = field(default_factory=SpeculationStats)
    events: asyncio.Queue[GenerateEvent | TandemError] = field(default_factory=asyncio.Queue)

    @property
    def shadow(self) -> bool:
        """Whether its drafts are watched and never verified."""
        return self.request.terms.shadow

    @property
    def num_pending(self) -> int:
        """Committed tokens not computed yet: 1 while decoding, more in prefill."""
        return len(self.tokens) - self.num_computed

    @property
    def num_left(self) -> int:
        return self.max_length - len(self.tokens)

    @property
    def next_block_size(self) -> int:
        """Guesses worth asking for: one position is always the target's own. A tree may hold more guesses
        than positions."""
        if self.tree_width > 1:
            return self.block_size if self.num_left > 1 else 0
        return min(self.block_size, self.num_left - 1)

    def keep(self, nodes: Seq[int]) -> None:
        """Of the guesses computed after ``tokens`` these stand; others may lie in between them."""
        base_length = len(self.tokens)
        self.num_computed = base_length + len(nodes)
        self.moves += [
            Move(self._slot(base_length + node), self._slot(base_length + depth))
            for depth, node in enumerate(nodes)
            if node != depth
        ]

    def _slot(self, position: int) -> int:
        return self.blocks[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE
