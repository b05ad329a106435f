"""A tree of guesses from a pool of n-grams."""

from __future__ import annotations

from collections.abc import Sequence

from verify_service.drafts.lookahead.pool import Pool


class Tree:
    """Grows by paths that share their beginnings, up to ``size`` guesses, ``width`` of them after each."""

    def __init__(self, size: int, width: int) -> None:
        self._size = size
        self._width = width
        self.token_ids: list[int] = []
        self.parents: list[int] = []
        self._children: list[dict[int, int]] = [{}]  # of the root and of each guess, by their tokens

    @property
    def full(self) -> bool:
        return len(self.token_ids) >= self._size

    def add(self, path: Sequence[int], node: int = -1) -> int:
        """Below ``node``, as much of ``path`` as there is room for; where it ends."""
        for token_id in path:
            siblings = self._children[node + 1]
            if token_id not in siblings:
                if self.full or len(siblings) == self._width:
                    break
                siblings[token_id] = len(self.token_ids)
                self.token_ids.append(token_id)
                self.parents.append(node)
                self._children.append({})
            node = siblings[token_id]
        return node


def guess(pool: Pool, last: int, size: int, width: int) -> Tree:
    """What may follow the committed token ``last``: its n-grams, the latest first, then what goes on from
    where they end."""
    tree = Tree(size, width)
    ends = [tree.add(rest) for rest in pool.after(last)[:width]]
    for end in ends:
        _go_on(tree, pool, end)
    return tree


def _go_on(tree: Tree, pool: Pool, end: int) -> None:
    while end >= 0 and not tree.full:
        following = pool.after(tree.token_ids[end])
        longer = tree.add(following[0], end) if following else end
        if longer == end:
            return
        end = longer
