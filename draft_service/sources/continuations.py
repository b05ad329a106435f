"""Several continuations of one text, merged into a tree of guesses."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from draft_service.sources.base import Guess


@dataclass(slots=True)
class Trie:
    """Continuations, merged as far as they agree.

    Attributes:
        weight: of all that go through here.
    """

    weight: float = 0.0
    following: dict[int, Trie] = field(default_factory=dict)

    def add(self, token_ids: Sequence[int], weight: float) -> None:
        trie = self
        trie.weight += weight
        for token_id in token_ids:
            trie = trie.following.setdefault(token_id, Trie())
            trie.weight += weight

    def best(self, count: int, width: int, goes_on: float = 1.0, doubt: float = 0.0) -> Guess:
        """The ``count`` likeliest nodes, parents and likelier siblings first; of equals the one added first.

        A node is as likely as its share of the continuations, multiplied along the path: its confidence.

        Args:
            width: most nodes with the same parent; 1: a chain, without parents.
            goes_on: belief that a continuation which was right so far is right once more.
            doubt: weight, at every node, of continuations that nobody has seen.
        """
        token_ids: list[int] = []
        parents: list[int] = []
        confidences: list[float] = []
        order = itertools.count()
        frontier = [(-1.0, next(order), -1, -1, self)]
        while frontier and len(token_ids) < count:
            belief, _, token_id, parent, trie = heapq.heappop(frontier)
            node = -1
            if trie is not self:
                node = len(token_ids)
                token_ids.append(token_id)
                parents.append(parent)
                confidences.append(-belief)
            ranked = sorted(trie.following.items(), key=lambda item: -item[1].weight)[:width]
            for child_id, child in ranked:
                share = belief * goes_on * child.weight / (trie.weight + doubt)
                heapq.heappush(frontier, (share, next(order), child_id, node, child))
        return Guess(
            tuple(token_ids),
            confidences=tuple(confidences),
            parents=tuple(parents) if width > 1 else (),
        )
