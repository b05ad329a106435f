"""One sequence's session on a draft replica, and what is learned from its blocks."""

from __future__ import annotations

import time
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace

from common.draft_types import Block, HiddenStates
from common.types import DraftEndpoint
from verify_service import metrics
from verify_service.drafts.ahead import Waiters
from verify_service.drafts.control import outcome
from verify_service.drafts.control.base import NOTHING, Choice, Controller, Outcome, Place
from verify_service.sequence import Sequence


@dataclass(slots=True, eq=False)
class DraftedSession:
    """
    Attributes:
        controller: decides how much is asked for.
        endpoint: the replica that drafts now; None: nobody does.
        live: it has answered before, so a step waits for it.
        choice: what was asked for last.
        asked: guesses asked for in the block on its way; 0: none is on its way.
        told: committed tokens that the draft knows of, when it was asked last.
        states_sent: hidden states of positions before this one were sent, or are not known.
        width: of the blocks that it makes now.
        block: the block that has come, not verified yet.
        offered: the block that came for ``choice``, taken or not.
        kept: which of the draft's own guesses ``offered`` holds.
        waited: see ``Outcome``.
        off: nothing pays.
        refused: addresses that will not draft this sequence.
        waiters: blocks that were sent ahead.
        expecting: the block on its way might have been there already.
    """

    sequence: Sequence
    controller: Controller
    endpoint: DraftEndpoint | None = None
    live: bool = False
    choice: Choice = NOTHING
    asked: int = 0
    asked_at: float = 0.0
    arrived_at: float = 0.0
    opened_at: float = 0.0
    told: int = 0
    states_sent: int = 0
    width: int = 1
    block: Block | None = None
    offered: Block | None = None
    kept: tuple[int, ...] = ()
    waited: float | None = None
    off: bool = False
    refused: set[str] = field(default_factory=set)
    waiters: Waiters = field(default_factory=Waiters)
    expecting: bool = False

    @property
    def age(self) -> float:
        """Seconds since the session was opened on its replica."""
        return time.monotonic() - self.opened_at

    @property
    def awaited(self) -> bool:
        """Whether a step waits for the block on its way."""
        return self.live and self.asked > 0 and not self.choice.probe

    @property
    def probing(self) -> bool:
        """Whether the block on its way is a probe; tokens are decided meanwhile."""
        return self.asked > 0 and self.choice.probe

    def ask(self, choice: Choice, ahead: int = 0) -> None:
        """A block was asked for, with all that is committed; so many more may be sent ahead."""
        self.choice, self.asked, self.width = choice, choice.block_size, choice.tree_width
        self.asked_at = time.monotonic()
        self.told = len(self.sequence.tokens)
        self.offered = self.waited = None
        self.waiters.told(self.told, choice.block_size, ahead)

    @property
    def unsettled(self) -> bool:
        """Whether the session only watches, and the answer has not come to the end of its block."""
        if not self.sequence.shadow or self.offered is None:
            return False
        return len(self.sequence.tokens) <= self.offered.base_length + len(self.offered.token_ids)

    def take_states(self) -> HiddenStates | None:
        """Those that the draft has not been sent."""
        states = self.sequence.states
        if states is None:
            return None
        message, self.states_sent = states.message(self.states_sent), states.end
        return message

    def offer(self, block: Block, kept: tuple[int, ...], size: int) -> None:
        """The block that was asked for has come, or had come before.

        Args:
            kept: the guesses that are sure enough.
            size: what the draft was asked for when it made the block.
        """
        self.choice = replace(self.choice, block_size=size)
        self.arrived_at = time.monotonic()
        if self.choice.probe:
            self.waited = self.arrived_at - self.asked_at
        elif self.live:
            self.waited = 0.0
        self.live = True
        self.block = self.offered = block.only(kept)
        self.kept = kept
        self.asked = 0
        if self.sequence.trace and not self.sequence.shadow:
            self.sequence.trace.offer(block, kept, self.arrived_at - self.asked_at)

    def narrow(self, nodes: Seq[int]) -> None:
        """Of the block that has come only these guesses are verified."""
        if self.block:
            self.block = self.block.only(nodes)
            self.kept = tuple(self.kept[node] for node in nodes)
            if self.sequence.trace:
                self.sequence.trace.narrow(nodes)

    def learn(self, verified: Block | None, nodes: Seq[int]) -> None:
        """Tell the controller how the block fared of which ``nodes`` stand; None: it was not verified."""
        if self.offered is None:
            return
        block, self.offered = self.offered, None
        self.sequence.notes.compare(block)
        if verified is None:
            judged = self._overtaken(block)
        else:
            short = len(block.token_ids) < self.choice.block_size
            complete = len(verified.token_ids) == len(block.token_ids)
            judged = outcome.places(verified, nodes, short=short and complete, known=len(nodes) + 1)
        self._observe(Outcome(self.choice, len(block.token_ids), judged, self.waited, block.drafting_seconds))

    def lose(self, waited: float | None = None) -> None:
        """What was asked for did not come."""
        self.asked = 0
        self._observe(Outcome(self.choice, None, waited=waited))

    def detach(self) -> None:
        self.endpoint, self.live, self.asked, self.block, self.offered = None, False, 0, None, None
        self.waiters.clear()

    def _overtaken(self, block: Block) -> list[Place]:
        """Nobody waited for the block; what the target said meanwhile shows whether it was right.

        A guess that is the target's token would have stood. One that is not would have been refused, unless
        it was drawn from a q that might have let it stand; of that nothing is learned.
        """
        told = self.sequence.tokens[block.base_length :]
        nodes, short = outcome.followed(block, told), len(block.token_ids) < self.choice.block_size
        judged = outcome.places(block, nodes, short=short, known=len(told))
        if not block.distributions:
            return judged
        return [place for place in judged if place.accepted is not None or not place.guesses]

    def _observe(self, seen: Outcome) -> None:
        if self.choice.probe:
            metrics.PROBES.labels(_fate(seen)).inc()
        if self.endpoint:
            self.sequence.notes.draft(self.endpoint).observe(seen)
        self.controller.observe(seen)


def _fate(seen: Outcome) -> str:
    if seen.offered is None:
        return "lost"
    return "right" if seen.accepted else "wrong"
