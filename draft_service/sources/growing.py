"""A tree of guesses in the making: which guesses are worth it, given what a model says after each."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from common import sampling, trees
from common.draft_types import SparseDistribution
from common.types import Mode
from draft_service.session import Session
from draft_service.sources.base import Guess
from draft_service.sources.beliefs import adjusted, beliefs

_NEVER = -1e4  # finite, so that where a grammar leaves none of a few tokens there still are numbers


@dataclass(frozen=True, slots=True)
class Few:
    """The tokens that a model's logits are of, where they are not of all ``size`` of the vocabulary.

    What takes all of them into account costs several times as much over a whole vocabulary, most of it zeros.

    Attributes:
        token_ids: int64 [tokens].
    """

    token_ids: Tensor
    size: int

    def spread(self, logits: Tensor) -> Tensor:
        """[tokens] to [size]."""
        return torch.full((self.size,), _NEVER).index_copy_(0, self.token_ids, logits)


@dataclass(slots=True, eq=False)
class _Node:
    """A guess; or the root, which is none.

    Attributes:
        path: the guesses from the root down to this one, itself included.
        draw: as in ``trees.draw``.
        worth: the belief that the target comes to this guess and takes it.
        children: in the order in which they will be tried; None before the model was asked.
    """

    path: tuple[int, ...]
    draw: int
    worth: float
    distribution: SparseDistribution | None = None
    shown: SparseDistribution | None = None
    children: list[_Node] | None = None


class Growth:
    """The ``block_size`` guesses of one session that are worth the most of all the model would make.

    As in EAGLE-2 (Li et al. 2024) a guess is worth the product of the beliefs along its path, so the best
    ones make up a tree.

    Under rejection sampling a guess must have been drawn from the q it declares *given that it is in the
    tree*. So its worth is fixed before it is drawn, and as neither its followers nor its later siblings are
    worth more, nothing that depends on what it turned out to be can push it out.
    """

    def __init__(self, session: Session, deepest: int | None = None, few: Few | None = None) -> None:
        """
        Args:
            deepest: how many tokens on the model can say something at all; None: any number.
            few: what its logits are of; None: the whole vocabulary.
        """
        session.follow()
        self._session = session
        self._deepest = session.longest if deepest is None else min(deepest, session.longest)
        self._few = few
        self._root = _Node((), 0, 1.0)
        self._nodes: list[_Node] = []
        self._parents: list[int] = []

    @property
    def planted(self) -> bool:
        return self._root.children is not None

    @property
    def finished(self) -> bool:
        """Whether nothing the model has not been asked about could displace a guess.

        What follows the last guess of a full tree is worth less than that and all the others.
        """
        return not self._open

    @property
    def unasked(self) -> list[tuple[int, ...]]:
        """The guesses after which ``ask`` wants to hear from the model, each with all that lead to it."""
        return [node.path for node in self._open]

    @property
    def _open(self) -> list[_Node]:
        full = len(self._nodes) == self._session.block_size
        return [node for node in (self._nodes[:-1] if full else self._nodes) if node.children is None]

    def questions(self) -> tuple[list[int], list[int]]:
        """Tokens, and parents where they are a tree, after which ``grow`` needs to hear from the model.

        No guess of a chain falls out again, so only its last one is run; a tree is run whole.
        """
        token_ids = [node.path[-1] for node in self._nodes]
        return (token_ids[-1:], []) if self._session.tree_width == 1 else (token_ids, self._parents)

    def plant(self, logits: Tensor) -> None:
        """Take in what the model says after the committed tokens: [vocabulary]."""
        self._take_in([self._root], logits[None])

    def ask(self, said: Callable[[tuple[int, ...]], Tensor]) -> None:
        """Take in what it says after each path of ``unasked``: [vocabulary]."""
        nodes = self._open
        self._take_in(nodes, torch.stack([said(node.path) for node in nodes]))

    def grow(self, logits: Tensor) -> None:
        """Take in what it says after each token of ``questions``: [tokens, vocabulary]."""
        nodes = self._nodes[-len(logits) :]
        new = [index for index, node in enumerate(nodes) if node.children is None]
        self._take_in([nodes[index] for index in new], logits[new])

    def guess(self) -> Guess:
        nodes = self._nodes
        return Guess(
            token_ids=tuple(node.path[-1] for node in nodes),
            distributions=tuple(node.distribution for node in nodes if node.distribution),
            confidences=tuple(node.worth for node in nodes),
            parents=tuple(self._parents) if self._session.tree_width > 1 else (),
            shown=tuple(node.shown for node in nodes if node.shown),
        )

    def _select(self) -> None:
        """Parents and earlier siblings first, then what is worth more, so a prefix is the best so short."""
        frontier: list[tuple[float, int, list[_Node], int, int]] = []
        order = itertools.count()

        def offer(siblings: list[_Node] | None, rank: int, parent: int) -> None:
            if siblings and rank < len(siblings):
                heapq.heappush(frontier, (-siblings[rank].worth, next(order), siblings, rank, parent))

        self._nodes, self._parents = [], []
        offer(self._root.children, 0, -1)
        while frontier and len(self._nodes) < self._session.block_size:
            _, _, siblings, rank, parent = heapq.heappop(frontier)
            self._nodes.append(siblings[rank])
            self._parents.append(parent)
            offer(siblings, rank + 1, parent)
            offer(siblings[rank].children, 0, len(self._nodes) - 1)

    def _take_in(self, nodes: Sequence[_Node], logits: Tensor) -> None:
        """``logits``: of each node, [nodes, vocabulary]. Nodes at the greatest depth need not be asked."""
        for node, row, found in zip(nodes, logits, self._followers(nodes, logits), strict=True):
            node.children = found
            if self._session.shown_temperature:
                self._show(node, row)
            if len(node.path) + 1 == self._deepest:
                for follower in found:
                    follower.children = []
        self._select()

    def _show(self, node: _Node, logits: Tensor) -> None:
        """What it believes after a node, for its followers."""
        session, few = self._session, self._few
        if few and not sampling.changes_nothing(session.sampling, session.allowed):
            logits, few = few.spread(logits), None
        scaled = (logits if few else adjusted(session, logits, node.path)[0]) / session.shown_temperature
        shown = sampling.draft_distribution(scaled.softmax(-1))
        if few:
            token_ids = few.token_ids[torch.tensor(shown.token_ids)]
            shown = SparseDistribution(tuple(token_ids.tolist()), shown.probabilities)
        for follower in node.children or ():
            follower.shown = shown

    def _followers(self, nodes: Sequence[_Node], logits: Tensor) -> list[list[_Node]]:
        """Where nothing changes what the model says, that of all nodes is ranked at once."""
        params = self._session.sampling
        if params.greedy and sampling.changes_nothing(params, self._session.allowed):
            best = logits.softmax(-1).topk(min(self._session.tree_width, logits.shape[-1]))
            token_ids = self._few.token_ids[best.indices] if self._few else best.indices
            ranked = zip(nodes, token_ids.tolist(), best.values.tolist(), strict=True)
            return [_believed(node, tokens, beliefs) for node, tokens, beliefs in ranked]
        return [self._tokens_after(node, row) for node, row in zip(nodes, logits, strict=True)]

    def _tokens_after(self, node: _Node, logits: Tensor) -> list[_Node]:
        session = self._session
        if self._few:
            logits = self._few.spread(logits)
        if session.mode is Mode.REJECTION and not session.sampling.greedy:
            probs = sampling.probabilities(adjusted(session, logits, node.path), session.sampling)[0]
            position = len(session.tokens) + len(node.path)
            return self._drawn(node, sampling.draft_distribution(probs), position)
        return self._ranked(node, beliefs(session, logits, node.path))

    def _ranked(self, node: _Node, said: Tensor) -> list[_Node]:
        """The likeliest tokens to be the target's choice."""
        values, token_ids = said.topk(min(self._session.tree_width, len(said)))
        return _believed(node, token_ids.tolist(), values.tolist())

    def _drawn(self, node: _Node, q: SparseDistribution, position: int) -> list[_Node]:
        """Samples without replacement, each with the q it was drawn from."""
        found: list[_Node] = []
        left: SparseDistribution | None = q
        reached = worth = node.worth
        while left and left.token_ids and len(found) < self._session.tree_width:
            draw = trees.draw(node.draw, len(found))
            token_id = sampling.choose_sparse(left, self._session.noise_seed, position, draw)
            accepted = _acceptance(left)
            worth = min(worth, reached * accepted)
            reached *= 1 - accepted
            found.append(_Node((*node.path, token_id), draw, worth, left))
            left = sampling.without(left, token_id)
        return found


def _believed(node: _Node, token_ids: Sequence[int], beliefs: Sequence[float]) -> list[_Node]:
    return [
        _Node((*node.path, token_id), 0, node.worth * belief)
        for token_id, belief in zip(token_ids, beliefs, strict=True)
        if belief > 0
    ]


def _acceptance(q: SparseDistribution) -> float:
    """A guess at how much of q the target shares, before a token is drawn: the surer, the more."""
    return math.sqrt(max(q.probabilities))
