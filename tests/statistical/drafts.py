"""Drafts of every character, in process: good, bad, hostile and lying."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from common import sampling
from common.draft_types import Block, Close, Commit, Open, Proposed, SessionUpdate, SparseDistribution
from common.types import Mode, SamplingParams
from draft_service.session import Session
from draft_service.sources.growing import Growth
from tests.statistical.reference import Array, Target
from verify_service.drafts.breaker import WaitBreaker
from verify_service.drafts.link import OnAnswers, OnLost

LONGEST_CONTEXT = 2

Proposal = Callable[[Array, int], Array]


def good(p: Array, position: int) -> Array:
    """Close to the target, not equal."""
    return p * np.random.default_rng(position).uniform(0.5, 1.5, p.shape)


def bad(p: Array, position: int) -> Array:
    """Has nothing to do with the target."""
    return np.random.default_rng(position).dirichlet(np.full(p.shape, 0.3))


def adversarial(p: Array, position: int) -> Array:
    """Prefers what the target least wants."""
    return 1 / (p + 1e-3)


class InProcessDraft:
    """A link that answers at once. Guesses are sampled from ``proposal`` of the target's distribution.

    Args:
        honest: declares the q it samples from; otherwise it samples its likeliest token and declares q all
            the same.
        one_hot: always guesses its likeliest token and declares nothing.

    Attributes:
        declared: per block the q of each guess, sent or not.
    """

    def __init__(
        self, target: Target, proposal: Proposal, *, honest: bool = True, one_hot: bool = False
    ) -> None:
        self.breaker = WaitBreaker()
        self.up = True
        self._target = target
        self._proposal = proposal
        self._honest = honest
        self._one_hot = one_hot
        self._sessions: dict[str, tuple[Open, list[int]]] = {}
        self._blocks: dict[str, tuple[int, ...]] = {}
        self._count = 0
        self.declared: dict[int, tuple[SparseDistribution, ...]] = {}

    def start(self, on_answers: OnAnswers, on_lost: OnLost) -> None:
        self._on_answers = on_answers

    async def close(self) -> None:
        return

    def send(self, update: SessionUpdate) -> None:
        match update:
            case Open():
                self._sessions[update.session_id] = (update, list(update.token_ids))
                self._answer(update.session_id, update.block_size)
            case Commit():
                _, tokens = self._sessions[update.session_id]
                assert update.base_length == len(tokens)
                block = self._blocks.get(update.session_id, ())
                tokens += [*(block[node] for node in update.accepted_nodes), *update.token_ids]
                self._answer(update.session_id, update.block_size)
            case Close():
                del self._sessions[update.session_id]

    def _answer(self, session_id: str, size: int) -> None:
        if not size:
            return
        session, tokens = self._sessions[session_id]
        block = self._block(session, tokens, size)
        self._blocks[session_id] = block.token_ids
        self._on_answers([Proposed(session_id, block)])

    def _block(self, session: Open, tokens: Sequence[int], size: int) -> Block:
        guesses: list[int] = []
        declared: list[SparseDistribution] = []
        for _ in range(size):
            context = (*tokens[session.prompt_length :], *guesses)
            guess, distribution = self._guess(session, context, len(tokens) + len(guesses))
            guesses.append(guess)
            declared.append(distribution)
        self._count += 1
        self.declared[self._count] = tuple(declared)
        q = () if self._one_hot or session.mode is Mode.KEYED else tuple(declared)
        return Block(self._count, len(tokens), tuple(guesses), distributions=q)

    def _guess(
        self, session: Open, context: tuple[int, ...], position: int
    ) -> tuple[int, SparseDistribution]:
        q = self._q(session, context, position)
        distribution = sampling.draft_distribution(q)
        if self._one_hot or not self._honest:
            return int(q.argmax()), distribution
        if session.mode is Mode.KEYED:
            return sampling.choose(q, session.noise_seed, position), distribution
        return sampling.choose_sparse(distribution, session.noise_seed, position), distribution

    def _q(self, session: Open, context: tuple[int, ...], position: int) -> Tensor:
        """Of the proposal after ``context``; the target is only known for what an answer may hold."""
        p = self._target.distribution(context[:LONGEST_CONTEXT], session.sampling)
        return torch.from_numpy(self._proposal(p, position))


class InProcessTreeDraft(InProcessDraft):
    """Guesses trees as the draft service grows them, with the proposal for its model."""

    def _block(self, session: Open, tokens: Sequence[int], size: int) -> Block:
        growth = Growth(self._as_seen_by_the_source(session, tokens, size))
        said = self._after(session, tokens)
        growth.plant(said(()))
        while not growth.finished:
            growth.ask(said)
        guess, self._count = growth.guess(), self._count + 1
        return Block(
            self._count,
            len(tokens),
            guess.token_ids,
            parents=guess.parents,
            distributions=guess.distributions,
        )

    def _as_seen_by_the_source(self, session: Open, tokens: Sequence[int], size: int) -> Session:
        """The proposal is taken as it is; one-hot guesses are its likeliest, a liar's noise is its own."""
        drawn = replace(
            session,
            sampling=SamplingParams(temperature=0 if self._one_hot else 1),
            token_ids=tokens,
            block_size=size,
            noise_seed=session.noise_seed if self._honest else 1,
        )
        return Session.opened(drawn)

    def _after(self, session: Open, tokens: Sequence[int]) -> Callable[[tuple[int, ...]], Tensor]:
        def said(path: tuple[int, ...]) -> Tensor:
            context = (*tokens[session.prompt_length :], *path)
            return self._q(session, context, len(tokens) + len(path)).log()

        return said
