"""Scripted drafts behind the hub's ``Link``."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from common import sampling, trees
from common.draft_types import (
    Block,
    Close,
    Commit,
    Open,
    Proposed,
    Refused,
    SessionUpdate,
    SparseDistribution,
)
from tests.support.scripted.target import Script, Target
from verify_service.drafts.breaker import WaitBreaker
from verify_service.drafts.link import Link, OnAnswers, OnLost


@dataclass(slots=True)
class DraftSession:
    """What a real draft would know of a session."""

    opened: Open
    tokens: list[int]
    block_size: int
    block_ids: Iterator[int]
    proposed: dict[int, Block] = field(default_factory=dict)

    def block(
        self,
        token_ids: Sequence[int],
        distributions: Sequence[SparseDistribution] = (),
        parents: Sequence[int] = (),
    ) -> Block:
        block = Block(
            next(self.block_ids),
            len(self.tokens),
            tuple(token_ids),
            parents=tuple(parents),
            distributions=tuple(distributions),
            source="liar",
        )
        self.proposed[block.block_id] = block
        return block


Propose = Callable[[DraftSession], Block | Refused | None]
"""What a draft answers when it is asked; None: nothing, ever."""


def perfect(script: Script) -> Propose:
    return lambda session: session.block(script.continuation(session.tokens, session.block_size))


def half_wrong(script: Script) -> Propose:
    """Right up to a place that moves, wrong from there."""

    def propose(session: DraftSession) -> Block:
        guesses = script.continuation(session.tokens, session.block_size)
        right = hash(tuple(session.tokens)) % (session.block_size + 1)
        wrong = [1 + guess % (script.vocabulary_size - 1) for guess in guesses[right:]]
        return session.block([*guesses[:right], *wrong])

    return propose


def garbage(script: Script) -> Propose:
    """Never right."""

    def propose(session: DraftSession) -> Block:
        guesses = script.continuation(session.tokens, session.block_size)
        return session.block([1 + guess % (script.vocabulary_size - 1) for guess in guesses])

    return propose


def sampled(draft: Target, support: int = sampling.MAX_SUPPORT) -> Propose:
    """An honest model draft: samples from its own q with the noise it was given, and declares it."""

    def propose(session: DraftSession) -> Block:
        tokens, distributions = list(session.tokens), []
        for _ in range(session.block_size):
            probs = sampling.probabilities(draft(tuple(tokens)).double()[None], session.opened.sampling)[0]
            distributions.append(sampling.draft_distribution(probs, support))
            tokens.append(sampling.choose_sparse(distributions[-1], session.opened.noise_seed, len(tokens)))
        return session.block(tokens[len(session.tokens) :], distributions)

    return propose


def never(session: DraftSession) -> None:
    """Takes everything in and does not answer."""


class ScriptedLink:
    """A ``Link`` to a draft in this process, which insists on consistent updates.

    ``propose`` and ``delay_seconds`` may be changed at any time. ``history`` is shared by every link: all
    tokens that any of them knows of a session.
    """

    def __init__(self, propose: Propose, history: dict[str, list[int]], breaker: WaitBreaker) -> None:
        self.breaker = breaker
        self.propose = propose
        self.delay_seconds = 0.0
        self.up = True
        self.updates: list[SessionUpdate] = []
        self.sessions: dict[str, DraftSession] = {}
        self.closed = False
        self._history = history
        self._block_ids = itertools.count(1)
        self._pending: list[asyncio.Handle] = []
        self._on_answers: OnAnswers = lambda answers: None
        self._on_lost: OnLost = lambda: None

    def start(self, on_answers: OnAnswers, on_lost: OnLost) -> None:
        self._on_answers, self._on_lost = on_answers, on_lost

    def send(self, update: SessionUpdate) -> None:
        if not self.up:
            return
        self.updates.append(update)
        match update:
            case Open():
                self._open(update)
            case Commit():
                self._commit(update)
            case Close():
                self.sessions.pop(update.session_id, None)

    async def close(self) -> None:
        self.closed = True
        for handle in self._pending:
            handle.cancel()

    def go_down(self) -> None:
        """The stream ends: every session on it is gone."""
        self.up = False
        self.sessions.clear()
        self._on_lost()

    def come_up(self) -> None:
        self.up = True

    def answer(self, *answers: Proposed | Refused) -> None:
        """Send answers that nobody asked for."""
        self._on_answers(answers)

    def _open(self, update: Open) -> None:
        tokens, known = list(update.token_ids), self._history.get(update.session_id, [])
        assert 0 < update.prompt_length <= len(tokens)
        assert tokens[: len(known)] == known, "an open without all committed tokens"
        assert 0 < update.block_size <= update.max_block_size
        assert update.sampling.seed is None, "the seed stays with the target"
        self.sessions[update.session_id] = DraftSession(update, tokens, update.block_size, self._block_ids)
        self._history[update.session_id] = list(tokens)
        self._ask(update.session_id)

    def _commit(self, update: Commit) -> None:
        session = self.sessions.get(update.session_id)
        assert session is not None, "a commit to a session that is not open here"
        assert update.base_length == len(session.tokens)
        accepted = self._accepted(session, update)
        assert update.token_ids, "a commit without the target's own token"
        assert 0 <= update.block_size <= session.opened.max_block_size
        session.tokens += [*accepted, *update.token_ids]
        session.block_size = update.block_size
        self._history[update.session_id] = list(session.tokens)
        if update.next_block_id:
            sent = session.proposed[update.next_block_id]
            assert sent.base_length == len(session.tokens), "goes on with a block for another text"
            assert session.tokens[-len(sent.assumed) :] == list(sent.assumed)
        elif update.block_size:
            self._ask(update.session_id)

    def _accepted(self, session: DraftSession, update: Commit) -> list[int]:
        block, nodes = session.proposed.get(update.block_id), update.accepted_nodes
        if not nodes:
            return []
        assert block is not None, "accepted of a block that was not proposed"
        assert nodes == trees.path(block.tree, nodes[-1]), "accepted what is no branch of the block"
        return [block.token_ids[node] for node in nodes]

    def _ask(self, session_id: str) -> None:
        session = self.sessions[session_id]
        answer = self.propose(session)
        if answer is None:
            return
        named = answer if isinstance(answer, Refused) else Proposed(session_id, answer)
        loop = asyncio.get_running_loop()
        self._pending.append(loop.call_later(self.delay_seconds, self._deliver, session, named))

    def _deliver(self, session: DraftSession, answer: Proposed | Refused) -> None:
        if self.sessions.get(answer.session_id) is not session:
            return
        if isinstance(answer, Refused):
            del self.sessions[answer.session_id]
        self._on_answers([answer])


class ScriptedDrafts:
    """Makes links by address, each with its own behaviour; an address without one never answers."""

    def __init__(
        self, by_address: Mapping[str, Propose], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._by_address = dict(by_address)
        self._clock = clock
        self.links: dict[str, ScriptedLink] = {}
        self.history: dict[str, list[int]] = {}

    def make_link(self, address: str) -> Link:
        propose = self._by_address.get(address, never)
        return self.links.setdefault(address, ScriptedLink(propose, self.history, WaitBreaker(self._clock)))
