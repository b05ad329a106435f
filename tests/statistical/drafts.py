"""Drafts of every character, in process: good, bad, hostile and lying."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from common import sampling
from common.types import Block, Close, Commit, Mode, Open, Proposed, SessionUpdate, SparseDistribution
from tests.statistical.reference import Array, Target
from verify_service.drafts.breaker import WaitBreaker
from verify_service.drafts.link import OnAnswers, OnLost

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
                accepted = self._blocks[update.session_id][: update.accepted] if update.block_id else ()
                tokens += [*accepted, *update.token_ids]
                self._answer(update.session_id, update.block_size)
            case Close():
                del self._sessions[update.session_id]

    def _answer(self, session_id: str, size: int) -> None:
        if not size:
            return
        session, tokens = self._sessions[session_id]
        guesses: list[int] = []
        declared: list[SparseDistribution] = []
        for _ in range(size):
            context = (*tokens[session.prompt_length :], *guesses)
            guess, distribution = self._guess(session, context, len(tokens) + len(guesses))
            guesses.append(guess)
            declared.append(distribution)
        self._count += 1
        self.declared[self._count] = tuple(declared)
        self._blocks[session_id] = tuple(guesses)
        q = () if self._one_hot or session.mode is Mode.KEYED else tuple(declared)
        block = Block(self._count, len(tokens), tuple(guesses), distributions=q)
        self._on_answers([Proposed(session_id, block)])

    def _guess(
        self, session: Open, context: tuple[int, ...], position: int
    ) -> tuple[int, SparseDistribution]:
        p = self._target.distribution(context, session.sampling)
        q = torch.from_numpy(self._proposal(p, position))
        distribution = sampling.draft_distribution(q)
        if self._one_hot or not self._honest:
            return int(q.argmax()), distribution
        if session.mode is Mode.KEYED:
            return sampling.choose(q, session.noise_seed, position), distribution
        return sampling.choose_sparse(distribution, session.noise_seed, position), distribution
