"""How well a source has lately guessed in one session."""

from __future__ import annotations

from collections.abc import Sequence

from common import trees
from draft_service.sources.base import Guess

_DISCOUNT = 0.9  # of what is known, per block that is judged
_DEPTHS = 16  # deeper guesses are judged together
_PRIOR = 2.0  # guesses, or blocks, that what is assumed at first counts for
_FIRST_TRUST = 0.5
_FIRST_LENGTH = 2.0


class Standing:
    """Discounted counts of guesses that stood, by depth, against what was believed of them.

    Counted is a guess that the text reached: one whose ancestors all stood. What it was believed to be worth
    depends on tokens before it alone.
    """

    def __init__(self) -> None:
        self._stood = [0.0] * _DEPTHS
        self._believed = [0.0] * _DEPTHS
        self._blocks = 0.0

    @property
    def length(self) -> float:
        """How many guesses of a block stand."""
        return (_PRIOR * _FIRST_LENGTH + sum(self._stood)) / (_PRIOR + self._blocks)

    def trust(self, depth: int) -> float:
        """How many of the guesses reached there stood, as a share of what was believed of them.

        Of a source without confidences that is the acceptance rate; of one with, what its confidence, given
        that the guess before stands, is to be multiplied by.
        """
        depth = min(depth, _DEPTHS - 1)
        return (_PRIOR * _FIRST_TRUST + self._stood[depth]) / (_PRIOR + self._believed[depth])

    def judge(self, guess: Guess, continuation: Sequence[int]) -> tuple[int, int]:
        """Take in a block and what really followed; how many of the guesses reached stood, and fell."""
        self._stood = [_DISCOUNT * count for count in self._stood]
        self._believed = [_DISCOUNT * count for count in self._believed]
        self._blocks = _DISCOUNT * self._blocks + 1
        outcomes = reached(guess, continuation)
        depths = trees.depths(parents_of(guess))
        for node, stood in outcomes.items():
            depth = min(depths[node], _DEPTHS - 1)
            self._stood[depth] += stood
            self._believed[depth] += confidence(guess, node)
        stood_together = sum(outcomes.values())
        return stood_together, len(outcomes) - stood_together


def reached(guess: Guess, continuation: Sequence[int]) -> dict[int, bool]:
    """The guesses that the text has come to, and whether each came true."""
    found: dict[int, bool] = {}
    parents = parents_of(guess)
    for node, (parent, depth) in enumerate(zip(parents, trees.depths(parents), strict=True)):
        if (parent < 0 or found.get(parent)) and depth < len(continuation):
            found[node] = guess.token_ids[node] == continuation[depth]
    return found


def parents_of(guess: Guess) -> tuple[int, ...]:
    """``parents``, spelled out for a chain too."""
    return guess.parents or trees.chain(len(guess.token_ids))


def confidence(guess: Guess, node: int) -> float:
    """That a guess stands if the one before it does; 1 of a source that says nothing about it."""
    if not guess.confidences:
        return 1.0
    parent = parents_of(guess)[node]
    before = guess.confidences[parent] if parent >= 0 else 1.0
    return guess.confidences[node] / before if before else 0.0
