"""The guesses of several sources as one block."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from common import trees
from common.types import SparseDistribution
from draft_service.sources.base import NOTHING, Guess
from draft_service.sources.standing import Standing, confidence, parents_of


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one source guesses, and how it has done so far."""

    source: str
    guess: Guess
    standing: Standing

    @property
    def beliefs(self) -> list[float]:
        """Of each guess to stand: what is believed of the one before it, times confidence times trust."""
        guess, parents = self.guess, parents_of(self.guess)
        if guess.distributions:
            return self._ordered_beliefs()
        found: list[float] = []
        for node, (parent, depth) in enumerate(zip(parents, trees.depths(parents), strict=True)):
            before = found[parent] if parent >= 0 else 1.0
            found.append(before * min(1.0, confidence(guess, node) * self.standing.trust(depth)))
        return found

    def _ordered_beliefs(self) -> list[float]:
        """Of guesses that come with a q: in the order in which they came, so one trust for all."""
        trust = self.standing.trust(0)
        confidences = self.guess.confidences or (1.0,) * len(self.guess.token_ids)
        return list(itertools.accumulate((min(1.0, trust * c) for c in confidences), min))

    @property
    def expected_length(self) -> float:
        """How many guesses should stand. What drawn tokens turned out to be has no say in it."""
        return self.standing.length if self.guess.distributions else sum(self.beliefs)


def merge(proposals: Sequence[Proposal], count: int, width: int) -> Guess:
    """At most ``count`` guesses, at most ``width`` of them after the same text.

    Under rejection sampling a block is exact where each guess that declares a q was drawn from it given its
    ancestors, its earlier siblings, and that it is in the block and declares it (``accept_rejection`` in the
    verify service; SpecInfer, Miao et al. 2023). A guess that declares none is taken as certain, which is
    exact however it was found, as long as the target's noise had no part in it.

    Let z be a guess of source A that comes with a q. It keeps that q where no other source guesses after the
    same text, and is certain else. Whatever decides about z is fixed without it:

    1. At most one source with q's takes part, chosen by its standing, that is by committed text. The others
       are functions of the committed text. So no guess shares z's noise: A's own were drawn with other noise.
    2. Whether only A guesses after the same text is asked before any guess is left out: z's ancestors tell.
    3. The best ``count`` are chosen by belief. A fixes a confidence before it draws, and trust is committed
       text, so z's belief does not depend on z. What z turned out to be can change only guesses that A puts
       after z: followers, later siblings, and what these push out of A's own tree. They all stay behind z
       here, as beliefs keep A's order. Others have no followers or siblings of z, and a guess that A has in
       common with another source has the larger of two beliefs: if that is the other's, A's does not matter,
       and else it is behind z.
    4. z's place among the draws (``trees.draws``) must be the one it was drawn with. That depends on the
       ranks of its ancestors, among which A's guesses stand first, in A's order.
    """
    drawn = [proposal for proposal in proposals if proposal.guess.distributions]
    lead = max(drawn, key=lambda proposal: proposal.standing.length, default=None)
    taken = [p for p in proposals if p.guess.token_ids and (p is lead or not p.guess.distributions)]
    if not taken:
        return NOTHING
    return _chain(taken, count) if width == 1 else _Tree(taken, lead).best(count, width)


def _chain(proposals: Sequence[Proposal], count: int) -> Guess:
    """The one that should go furthest, and past its end those that agree with it so far."""
    token_ids: tuple[int, ...] = ()
    beliefs: list[float] = []
    sources: list[str] = []
    declared: list[SparseDistribution] = []
    for proposal in sorted(proposals, key=lambda proposal: -proposal.expected_length):
        guess, start = proposal.guess, len(token_ids)
        if guess.token_ids[:start] == token_ids:
            token_ids += guess.token_ids[start:]
            beliefs += proposal.beliefs[start:]
            sources += [proposal.source] * (len(token_ids) - start)
            declared += guess.distributions[start:] or map(certain, guess.token_ids[start:])
    return Guess(
        token_ids[:count],
        tuple(declared[:count]) if any(proposal.guess.distributions for proposal in proposals) else (),
        tuple(beliefs[:count]),
        sources=tuple(sources[:count]),
    )


@dataclass(slots=True, eq=False)
class _Node:
    """A guess after ``parent``, by one source or more; ``q`` and ``draw`` as the source with q's has them."""

    token_id: int
    parent: _Node | None
    belief: float = -1.0
    source: str = ""
    drawn: bool = False
    q: SparseDistribution | None = None
    draw: int = 0
    following: dict[int, _Node] = field(default_factory=dict)


class _Tree:
    """All guesses, common beginnings merged."""

    def __init__(self, proposals: Sequence[Proposal], lead: Proposal | None) -> None:
        """``lead``: the one whose guesses come with q's, if any does; its guesses stand before others."""
        self._root = _Node(-1, None)
        self._nodes: list[_Node] = []
        for proposal in sorted(proposals, key=lambda proposal: proposal is not lead):
            self._add(proposal)

    def best(self, count: int, width: int) -> Guess:
        ranked = sorted(self._nodes, key=lambda node: -node.belief)
        chosen: dict[_Node, int] = {self._root: 0}  # with the number of followers chosen
        for node in ranked:
            assert node.parent
            if len(chosen) <= count and chosen.get(node.parent, width) < width:
                chosen[node.parent] += 1
                chosen[node] = 0
        return self._guess(_drawn_first([node for node in ranked if node in chosen]))

    def _add(self, proposal: Proposal) -> None:
        guess, parents = proposal.guess, parents_of(proposal.guess)
        placed: list[_Node] = []
        for token_id, parent, belief in zip(guess.token_ids, parents, proposal.beliefs, strict=True):
            above = placed[parent] if parent >= 0 else self._root
            node = above.following.get(token_id)
            if node is None:
                node = above.following[token_id] = _Node(token_id, above)
                self._nodes.append(node)
            if belief > node.belief:
                node.belief, node.source = belief, proposal.source
            placed.append(node)
        if guess.distributions:
            for node, q, draw in zip(placed, guess.distributions, trees.draws(parents), strict=True):
                node.drawn, node.q, node.draw = True, q, draw
        else:
            for node in placed:
                assert node.parent
                for sibling in node.parent.following.values():
                    sibling.q = None

    def _guess(self, nodes: Sequence[_Node]) -> Guess:
        places = {node: place for place, node in enumerate(nodes)} | {self._root: -1}
        parents = [places[node.parent] for node in nodes if node.parent]
        draws = trees.draws(parents)
        kept = [node.q if node.draw == draw else None for node, draw in zip(nodes, draws, strict=True)]
        return Guess(
            tuple(node.token_id for node in nodes),
            tuple(q or certain(node.token_id) for node, q in zip(nodes, kept, strict=True))
            if any(kept)
            else (),
            tuple(node.belief for node in nodes),
            tuple(parents),
            tuple(node.source for node in nodes),
        )


def _drawn_first(nodes: Sequence[_Node]) -> list[_Node]:
    """Best first, parents before followers, but of siblings those that were drawn first, as they were."""
    chosen = set(nodes)
    ordered: dict[_Node, None] = {}
    for node in nodes:
        assert node.parent
        siblings = [other for other in node.parent.following.values() if other.drawn and other in chosen]
        before = siblings[: siblings.index(node)] if node.drawn else siblings
        ordered |= dict.fromkeys([*before, node])
    return list(ordered)


def certain(token_id: int) -> SparseDistribution:
    return SparseDistribution((token_id,), (1.0,))
