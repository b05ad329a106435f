"""Every sequence's session on some draft replica, and the wait for their blocks."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import replace

from common import logging, noise, switches
from common.draft_types import Block, Close, Commit, Open, Proposed, Refused, SessionAnswer, tenant_key
from common.types import DraftEndpoint, FactCheck, Mode
from verify_service import metrics
from verify_service.acceptance.lossy import COMMON_TEMPERATURE
from verify_service.drafts.ahead import AheadPolicy, Waiting, count_use, still_assumed
from verify_service.drafts.checking import Asked, InvalidBlock, check_block, honest
from verify_service.drafts.confidence import sure_enough
from verify_service.drafts.control.base import NOTHING, Choice, Policy, State
from verify_service.drafts.control.fixed import Fixed
from verify_service.drafts.control.watching import Watching
from verify_service.drafts.limits import Hidden, Limits
from verify_service.drafts.link import DraftLink, Link
from verify_service.drafts.session import DraftedSession
from verify_service.sequence import Sequence

_MOST_LINKS = 64
_OPENING_SECONDS = 30.0  # a long prompt takes a draft a while; a draft that says nothing at all is left

log = logging.get("drafts")


class DraftHub:
    """Opens sessions where the plan says, fails over along it, and never holds a step beyond the budget."""

    def __init__(
        self,
        fingerprint: str,
        vocabulary_size: int,
        wait_seconds: float,
        make_link: Callable[[str], Link] = DraftLink,
        *,
        policy: Policy | None = None,
        limits: Limits = Limits(),
        hidden: Hidden = Hidden(),
        ahead: AheadPolicy | None = None,
        switch: Callable[[str], switches.State] = lambda _: switches.State.ON,
    ) -> None:
        """
        Args:
            ahead: how many blocks drafts may send ahead; None: none.
            hidden: what drafts are sent.
            policy: how many guesses are asked for; None: as many as the sequence may have.
            switch: by class of prompts, whether drafts are used, only watched, or not even asked.
        """
        self._policy: Policy = policy or Fixed()
        self._limits = limits
        self._hidden = hidden
        self._ahead = ahead or AheadPolicy()
        self._switch = switch
        self._batch = 0
        self._fingerprint = fingerprint
        self._vocabulary_size = vocabulary_size
        self._wait_seconds = wait_seconds
        self._make_link = make_link
        self._links: dict[str, Link] = {}
        self._sessions: dict[str, DraftedSession] = {}
        self._answered = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()

    async def wait(self, sequences: Seq[Sequence]) -> None:
        """Until every live session has answered, at most the wait budget after it was asked.

        ``sequences`` are all that run. For a probe nobody waits.
        """
        self._batch = len(sequences)
        sessions = [self._ensure(sequence) for sequence in sequences if sequence.block_size]
        pending = [session for session in sessions if session.awaited]
        if not pending:
            return
        started = time.monotonic()
        deadline = max(session.asked_at for session in pending) + self._wait_seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline - time.monotonic()):
                while any(session.asked for session in pending):
                    self._answered.clear()
                    await self._answered.wait()
        for session in pending:
            session.waited = max(session.arrived_at - started, 0.0)
        self._give_up_on([session for session in pending if session.asked])

    def reads_states(self, sequence: Sequence) -> bool:
        """Whether a draft may read the sequence's hidden states."""
        return bool(self._hidden.layers and sequence.block_size and sequence.request.drafts)

    def peek(self, sequence: Sequence) -> Block | None:
        """The block that ``take`` would look at."""
        session = self._sessions.get(sequence.session_id)
        return session.block if session and not sequence.shadow else None

    def narrow(self, sequence: Sequence, nodes: Seq[int]) -> None:
        """Of the block that ``take`` would look at only these guesses are to be verified."""
        session = self._sessions.get(sequence.session_id)
        if session:
            session.narrow(nodes)

    def take(self, sequence: Sequence) -> Block | None:
        """The block to verify next, if one that fits has come."""
        session = self._sessions.get(sequence.session_id)
        if session is None or session.block is None or sequence.shadow:
            return None
        block, session.block = session.block, None
        fits = block.base_length == len(sequence.tokens) and block.token_ids
        return block.shallow(sequence.num_left - 1) if fits else None

    def commit(
        self, sequence: Sequence, base_length: int, verified: Block | None, accepted_nodes: tuple[int, ...]
    ) -> None:
        """Tell the draft which guesses of its block stand and what follows, and ask for the next.

        A draft that is not asked is not told either; the next time it is, it is told all of it.
        """
        session = self._sessions.get(sequence.session_id)
        if session is None or session.endpoint is None:
            return
        if session.probing:
            if time.monotonic() - session.asked_at <= self._wait_seconds:
                return
            session.lose()
        if session.unsettled:
            return
        session.learn(verified, accepted_nodes)
        self._count_unused(session)
        choice = self._choose(session, session.endpoint)
        if not choice.block_size and sequence.next_block_size > 0:
            return
        nodes = tuple(session.kept[node] for node in accepted_nodes) if verified else ()
        told, width, expected = session.told, session.width, session.waiters.most > 0
        waiting = session.waiters.take(sequence.tokens[told:])
        if choice.probe or not choice.block_size:
            waiting = None
        # Before it is sent: a draft in this process answers at once.
        session.ask(choice, self._may_go_ahead(sequence, choice))
        if waiting:
            self._use(session, waiting)
        if expected:
            session.expecting = waiting is None
            count_use(waiting, verified, accepted_nodes)
        self._links[session.endpoint.address].send(
            Commit(
                session_id=sequence.session_id,
                base_length=told,
                block_id=verified.block_id if verified else 0,
                accepted_nodes=nodes,
                token_ids=tuple(sequence.tokens[told + len(nodes) :]),
                block_size=choice.block_size,
                tree_width=0 if choice.tree_width == width else choice.tree_width,
                hidden_states=session.take_states(),
                next_block_id=waiting.block.block_id if waiting else 0,
                ahead=session.waiters.most,
            )
        )

    def observe_step(self, tokens: int, seconds: float) -> None:
        """A step without prefill in which guesses were verified took so long, waiting included."""
        self._ahead.observe_step(tokens, seconds)

    def observe_pass(self, rows: int, seconds: float) -> None:
        """A pass without prefill took so long."""
        self._policy.observe_pass(rows, seconds)

    def close(self, sequence: Sequence) -> None:
        session = self._sessions.pop(sequence.session_id, None)
        if session is None:
            return
        if sequence.shadow:
            session.learn(None, ())
        session.controller.close()
        self._turn(session, off=False)
        if session.endpoint:
            link = self._links[session.endpoint.address]
            self._tell_the_end(session, link)
            link.send(Close(sequence.session_id))
            session.detach()
            self._answered.set()

    @staticmethod
    def _tell_the_end(session: DraftedSession, link: Link) -> None:
        """The tokens that the draft has not been told: it may learn from whole answers. One that has never
        answered may have refused the session, and is told nothing."""
        sequence = session.sequence
        untold = tuple(sequence.tokens[session.told :])
        if session.live and sequence.facts:
            sequence.facts.expect_last(len(sequence.tokens))
        if session.live and untold:
            link.send(
                Commit(
                    session_id=sequence.session_id,
                    base_length=session.told,
                    block_id=0,
                    accepted_nodes=(),
                    token_ids=untold,
                    block_size=0,
                )
            )

    async def shutdown(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links.values()))

    def _ensure(self, sequence: Sequence) -> DraftedSession:
        """The sequence's session, opened on the first replica of its plan that can be had."""
        session = self._sessions.get(sequence.session_id)
        if session is None:
            controller = Watching() if sequence.shadow else self._policy.controller()
            session = DraftedSession(sequence, controller)
            self._sessions[sequence.session_id] = session
        if session.endpoint and not session.live and session.age > _OPENING_SECONDS:
            self._expel(session.endpoint.address)
        if session.endpoint is None and sequence.next_block_size > 0:
            for endpoint in sequence.request.drafts:
                link = self._link(endpoint.address)
                if link and link.up and link.breaker.closed and endpoint.address not in session.refused:
                    choice = self._choose(session, endpoint)
                    if choice.block_size:
                        self._open(session, endpoint, link, choice)
                    break
        return session

    def _choose(self, session: DraftedSession, endpoint: DraftEndpoint) -> Choice:
        """What to ask ``endpoint`` for next."""
        sequence, choice = session.sequence, NOTHING
        most = sequence.next_block_size
        if most > 0 and self._limits.allow(self._batch) and self._switched_on(sequence):
            state = State(endpoint.name, most, sequence.tree_width, self._batch, len(sequence.tokens))
            choice = session.controller.choose(state)
        metrics.BLOCK_SIZE.observe(choice.block_size)
        self._turn(session, off=most > 0 and (choice.probe or not choice.block_size))
        return choice

    def _switched_on(self, sequence: Sequence) -> bool:
        state = self._switch(sequence.request.terms.prompt_class)
        return state is switches.State.ON or (state is switches.State.SHADOW and sequence.shadow)

    def _may_go_ahead(self, sequence: Sequence, choice: Choice) -> int:
        """Fact checks and grammars look at a block when it is made; they do not go back."""
        if choice.probe or not choice.block_size or sequence.facts or sequence.allowed:
            return 0
        return self._ahead.blocks

    def _turn(self, session: DraftedSession, off: bool) -> None:
        metrics.SESSIONS_OFF.inc(off - session.off)
        session.off = off

    def _open(self, session: DraftedSession, endpoint: DraftEndpoint, link: Link, choice: Choice) -> None:
        sequence = session.sequence
        session.endpoint = endpoint
        session.opened_at = time.monotonic()
        session.states_sent = 0
        session.ask(replace(choice, tree_width=sequence.tree_width), self._may_go_ahead(sequence, choice))
        keyed = sequence.mode is Mode.KEYED
        link.send(
            Open(
                session_id=sequence.session_id,
                fingerprint=self._fingerprint,
                vocabulary_size=self._vocabulary_size,
                token_ids=list(sequence.tokens),
                prompt_length=sequence.prompt_length,
                sampling=replace(sequence.request.sampling, seed=None),
                mode=sequence.mode,
                noise_seed=sequence.seed if keyed else noise.draft_seed(sequence.seed),
                block_size=choice.block_size,
                max_block_size=sequence.block_size,
                tree_width=sequence.tree_width,
                grammar=sequence.allowed.grammar if sequence.allowed else "",
                held_tokens=sequence.allowed.held_tokens if sequence.allowed else {},
                publish=sequence.request.speculation.fact_check is not FactCheck.OFF,
                tenant=tenant_key(sequence.request.cache_salt),
                hidden_layers=self._hidden.layers,
                hidden_size=self._hidden.size,
                hidden_states=session.take_states(),
                ahead=session.waiters.most,
                shown_temperature=COMMON_TEMPERATURE if sequence.policy else 0.0,
            )
        )

    def _link(self, address: str) -> Link | None:
        if address not in self._links:
            if len(self._links) >= _MOST_LINKS and not self._drop_unused_link():
                return None
            link = self._links[address] = self._make_link(address)
            link.start(lambda answers: self._on_answers(address, answers), lambda: self._detach_all(address))
        return self._links[address]

    def _drop_unused_link(self) -> bool:
        """Make place for a new replica; one that is down goes first."""
        for address in sorted(self._links, key=lambda address: self._links[address].up):
            if not self._on(address):
                closing = asyncio.create_task(self._links.pop(address).close())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
                return True
        return False

    def _give_up_on(self, late: Seq[DraftedSession]) -> None:
        """One missed budget: every session leaves the replica, so that no further step waits for it."""
        for session in late:
            session.sequence.stats.missed_waits += 1
            session.lose(waited=self._wait_seconds)
            metrics.MISSED_WAITS.inc()
        for address in {session.endpoint.address for session in late if session.endpoint}:
            log.warning("draft missed its wait budget", address=address)
            self._expel(address)

    def _expel(self, address: str) -> None:
        """Pause a replica: its sessions are closed there and may open elsewhere."""
        link = self._links[address]
        link.breaker.missed()
        for session in self._on(address):
            link.send(Close(session.sequence.session_id))
        self._detach_all(address)

    def _on(self, address: str) -> list[DraftedSession]:
        return [s for s in self._sessions.values() if s.endpoint and s.endpoint.address == address]

    def _detach_all(self, address: str) -> None:
        for session in self._on(address):
            session.detach()
        self._answered.set()

    def _on_answers(self, address: str, answers: Seq[SessionAnswer]) -> None:
        for answer in answers:
            session = self._sessions.get(answer.session_id)
            if session is None or session.endpoint is None or session.endpoint.address != address:
                metrics.BLOCKS.labels("unknown_session").inc()
                continue
            match answer:
                case Proposed(block=block):
                    self._on_block(session, session.endpoint, block)
                case Refused():
                    self._on_refusal(session, session.endpoint, answer)
        self._answered.set()

    def _on_block(self, session: DraftedSession, endpoint: DraftEndpoint, block: Block) -> None:
        sequence = session.sequence
        assumed = still_assumed(block, sequence.tokens, session.told)
        size = session.waiters.size_at(block.base_length - len(block.assumed))
        wanted = not session.waiters.full if assumed else session.asked > 0
        if assumed is None or size is None or not wanted:
            session.live = True
            metrics.BLOCKS.labels("stale").inc()
            return
        try:
            width = sequence.tree_width if block.assumed else session.width
            checked = check_block(
                block,
                Asked(size, width, self._vocabulary_size, sequence.mode, shown=sequence.policy is not None),
            )
        except InvalidBlock as error:
            metrics.BLOCKS.labels("invalid").inc()
            log.warning("invalid block", address=endpoint.address, error=str(error))
            sequence.notes.draft(endpoint).bad_blocks += 1
            self._expel(endpoint.address)
            return
        metrics.DRAFTING_SECONDS.observe(block.drafting_seconds)
        # The pool's name comes from configuration; what a draft calls itself is its own affair.
        made = replace(honest(checked, sequence), source=endpoint.name, assumed=assumed)
        if assumed:
            session.waiters.add(made, size)
        else:
            self._on_answer(session, endpoint, Waiting(made, size), late=bool(block.assumed))

    def _on_answer(
        self, session: DraftedSession, endpoint: DraftEndpoint, answer: Waiting, late: bool
    ) -> None:
        """``late``: the block was sent ahead, and came after it was asked for."""
        metrics.ROUND_TRIP_SECONDS.observe(time.monotonic() - session.asked_at)
        if session.expecting:
            metrics.AHEAD.labels("late" if late else "missed").inc()
        self._use(session, answer)
        if session.unsettled:
            return
        if answer.block.base_length < len(session.sequence.tokens):  # a probe that the target has overtaken
            session.learn(None, ())
            self._count_unused(session)
            return
        self._links[endpoint.address].breaker.answered()
        if session.block and session.block.token_ids and session.sequence.facts:
            session.sequence.facts.add_block(session.block)

    def _use(self, session: DraftedSession, answer: Waiting) -> None:
        """The block is the next to be verified. It may have been made for another size than is wanted now."""
        size = min(session.choice.block_size, answer.size)
        block = answer.block.prefix(size)
        drawn = bool(block.distributions) and session.sequence.policy is None
        kept = sure_enough(block, self._limits.min_confidence, drawn)
        metrics.UNSURE_TOKENS.inc(len(block.token_ids) - len(kept))
        session.offer(block, kept, size)
        if not kept:
            metrics.BLOCKS.labels("empty").inc()

    def _on_refusal(self, session: DraftedSession, endpoint: DraftEndpoint, refusal: Refused) -> None:
        known = refusal.code in metrics.REFUSALS
        metrics.SESSIONS_REFUSED.labels(refusal.code if known else "other").inc()
        log.warning("draft refused a session", address=endpoint.address, error=refusal.message[:500])
        session.sequence.notes.draft(endpoint).bad_blocks += refusal.code == "fingerprint_mismatch"
        if refusal.code != "out_of_sync":
            session.refused.add(endpoint.address)
        session.detach()

    def _count_unused(self, session: DraftedSession) -> None:
        if session.block is not None:
            session.block = None
            metrics.BLOCKS.labels("watched" if session.sequence.shadow else "stale").inc()
