"""Trees of guesses: ``parents[i]``, below i, is the guess that guess i follows, -1 the committed text.

Siblings stand in the order in which they are tried. A prefix of a tree is a tree.
"""

from __future__ import annotations

from collections.abc import Sequence

MAX_WIDTH = 8

_MASK = (1 << 64) - 1
_BASE = 0x9E3779B97F4A7C15


def chain(length: int) -> tuple[int, ...]:
    """Each guess follows the one before."""
    return tuple(range(-1, length - 1))


def depths(parents: Sequence[int]) -> list[int]:
    """How many guesses stand between each one and the committed text."""
    found: list[int] = []
    for parent in parents:
        found.append(0 if parent < 0 else found[parent] + 1)
    return found


def children(parents: Sequence[int]) -> list[list[int]]:
    """First what follows the committed text, then what follows each guess."""
    found: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    for node, parent in enumerate(parents):
        found[parent + 1].append(node)
    return found


def path(parents: Sequence[int], node: int) -> tuple[int, ...]:
    """The guesses from the committed text down to ``node``, itself included; none for -1."""
    found = []
    while node >= 0:
        found.append(node)
        node = parents[node]
    return tuple(reversed(found))


def draws(parents: Sequence[int]) -> list[int]:
    """Which draw at its position each guess is: 0 for first children all the way, another number for others.

    It depends on the ranks among siblings along the path alone, so it is known when a guess is drawn, before
    the rest of the tree is.
    """
    ranks = [0] * (len(parents) + 1)
    found: list[int] = []
    for parent in parents:
        found.append(draw(found[parent] if parent >= 0 else 0, ranks[parent + 1]))
        ranks[parent + 1] += 1
    return found


def draw(parent: int, rank: int) -> int:
    """The draw of a guess with ``rank`` earlier siblings, below one of draw ``parent``; 64 bits."""
    return (parent * _BASE + rank) & _MASK
