"""The guesses of several sources as one block."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from common import trees
from common.draft_types import SparseDistribution
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

    At most one source with q's takes part, chosen by its standing, that is by committed text: call it A.
    The others are functions of the committed text. A guess z of A declares its q, any other is certain. That
    is honest since whatever decides about z is fixed without it:

    1. No other guess shares z's noise: A's own were drawn with other noise, and the rest without any.
    2. The best ``count`` are chosen by belief among the guesses of all, before they are merged: what A and
       another source have in common counts twice, so whether they agree does not matter.
    3. A fixes a confidence before it draws, and trust is committed text, so z's belief does not depend on z.
       What z turned out to be can change only guesses that A puts after z: followers, later siblings, and
       what these push out of A's own tree. They stay behind z here, as beliefs keep A's order.
    4. Of the guesses after the same text A's stand first, in A's order, so z has the earlier siblings and the
       place among the draws (``trees.draws``) that it was drawn with.

    In a chain A's guesses are all there or none is, unless the beginning comes from others and A agrees with
    it; what it goes on with was drawn with noise of later positions.
    """
    drawn = [proposal for proposal in proposals if proposal.guess.distributions]
    lead = max(drawn, key=lambda proposal: proposal.standing.length, default=None)
    taken = [p for p in proposals if p.guess.token_ids and (p is lead or not p.guess.distributions)]
    taken.sort(key=lambda proposal: proposal is not lead)
    if not taken:
        return NOTHING
    if width == 1:
        return _chain(taken, count)
    if lead is None:
        return _Tree((proposal, range(len(proposal.guess.token_ids))) for proposal in taken).best(
            count, width
        )
    return _Tree(_best_of_each(taken, count, width)).best(count, width)


def _best_of_each(proposals: Sequence[Proposal], count: int, width: int) -> list[tuple[Proposal, list[int]]]:
    """The ``count`` best guesses by source, each counted for every source that makes it."""
    entries = [
        (-belief, place, node)
        for place, proposal in enumerate(proposals)
        for node, belief in enumerate(proposal.beliefs)
    ]
    chosen: list[list[int]] = [[] for _ in proposals]
    followers: Counter[tuple[int, ...]] = Counter()
    for _, place, node in sorted(entries):
        guess = proposals[place].guess
        parents = parents_of(guess)
        above = tuple(guess.token_ids[step] for step in trees.path(parents, parents[node]))
        there = parents[node] < 0 or parents[node] in chosen[place]
        if there and followers[above] < width and followers.total() < count:
            followers[above] += 1
            chosen[place].append(node)
    return [(proposal, sorted(nodes)) for proposal, nodes in zip(proposals, chosen, strict=True)]


def _chain(proposals: Sequence[Proposal], count: int) -> Guess:
    """The one that should go furthest, and past its end those that agree with it so far."""
    token_ids: tuple[int, ...] = ()
    beliefs: list[float] = []
    sources: list[str] = []
    declared: list[SparseDistribution] = []
    shown: list[SparseDistribution] = []
    for proposal in sorted(proposals, key=lambda proposal: -proposal.expected_length):
        guess, start = proposal.guess, len(token_ids)
        if guess.token_ids[:start] == token_ids:
            token_ids += guess.token_ids[start:]
            beliefs += proposal.beliefs[start:]
            sources += [proposal.source] * (len(token_ids) - start)
            certain = [SparseDistribution.certain(token_id) for token_id in guess.token_ids[start:]]
            declared += guess.distributions[start:] or certain
            shown += guess.shown[start:] or certain
    return Guess(
        token_ids[:count],
        tuple(declared[:count]) if any(proposal.guess.distributions for proposal in proposals) else (),
        tuple(beliefs[:count]),
        sources=tuple(sources[:count]),
        shown=tuple(shown[:count]) if any(proposal.guess.shown for proposal in proposals) else (),
    )


@dataclass(slots=True, eq=False)
class _Node:
    """A guess after ``parent``, by one source or more; ``q`` of the source that comes with some, ``shown`` of
    the one that believes most in it."""

    token_id: int
    parent: _Node | None
    belief: float = -1.0
    source: str = ""
    q: SparseDistribution | None = None
    shown: SparseDistribution | None = None
    following: dict[int, _Node] = field(default_factory=dict)


class _Tree:
    """Guesses of several sources, common beginnings merged."""

    def __init__(self, proposals: Iterable[tuple[Proposal, Sequence[int]]]) -> None:
        """Each with those of its guesses that take part; one with q's first."""
        self._root = _Node(-1, None)
        self._nodes: list[_Node] = []
        for proposal, nodes in proposals:
            self._add(proposal, nodes)

    def best(self, count: int, width: int) -> Guess:
        ranked = sorted(self._nodes, key=lambda node: -node.belief)
        chosen: dict[_Node, int] = {self._root: 0}  # with the number of followers chosen
        for node in ranked:
            assert node.parent
            if len(chosen) <= count and chosen.get(node.parent, width) < width:
                chosen[node.parent] += 1
                chosen[node] = 0
        return self._guess(_drawn_first([node for node in ranked if node in chosen]))

    def _add(self, proposal: Proposal, nodes: Sequence[int]) -> None:
        guess, parents, beliefs = proposal.guess, parents_of(proposal.guess), proposal.beliefs
        placed: dict[int, _Node] = {-1: self._root}
        for index in nodes:
            token_id, above = guess.token_ids[index], placed[parents[index]]
            node = above.following.get(token_id)
            if node is None:
                node = above.following[token_id] = _Node(token_id, above)
                self._nodes.append(node)
            if beliefs[index] > node.belief:
                node.belief, node.source = beliefs[index], proposal.source
                node.shown = guess.shown[index] if guess.shown else None
            if guess.distributions:
                node.q = guess.distributions[index]
            placed[index] = node

    def _guess(self, nodes: Sequence[_Node]) -> Guess:
        places = {node: place for place, node in enumerate(nodes)} | {self._root: -1}
        drawn = any(node.q for node in nodes)
        return Guess(
            tuple(node.token_id for node in nodes),
            tuple(node.q or SparseDistribution.certain(node.token_id) for node in nodes) if drawn else (),
            tuple(node.belief for node in nodes),
            tuple(places[node.parent] for node in nodes if node.parent),
            tuple(node.source for node in nodes),
            tuple(node.shown or SparseDistribution.certain(node.token_id) for node in nodes)
            if any(node.shown for node in nodes)
            else (),
        )


def _drawn_first(nodes: Sequence[_Node]) -> list[_Node]:
    """Best first, parents before followers, but of siblings those that were drawn first, as they were."""
    chosen = set(nodes)
    ordered: dict[_Node, None] = {}
    for node in nodes:
        assert node.parent
        siblings = [other for other in node.parent.following.values() if other.q and other in chosen]
        before = siblings[: siblings.index(node)] if node.q else siblings
        ordered |= dict.fromkeys([*before, node])
    return list(ordered)
