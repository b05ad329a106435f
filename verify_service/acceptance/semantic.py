"""``semantic``: a guess stands where it means about what the target would have said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Interval

from common import trees
from common.draft_types import Block
from verify_service.acceptance.lossy import Place, accept_where
from verify_service.acceptance.target import TargetRows, Verdict

Similarity = Callable[[str, str], float]
"""Cosine of what two words mean, −1 to 1."""

TokenText = Callable[[int], str]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEGATIONS = _words(
    """no not nor never none nothing nobody neither nowhere cannot without except unless hardly barely
    scarcely rarely seldom few little fail fails failed lack lacks lacked"""
)
_NUMBERS = _words(
    """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand
    million billion trillion first second third fourth fifth sixth seventh eighth ninth tenth half quarter
    dozen once twice double triple percent per cent monday tuesday wednesday thursday friday saturday
    sunday january february march april may june july august september october november december"""
)


@dataclass(frozen=True)
class Semantic:
    """The two words, by their embeddings, have a cosine of ``least`` or more.

    Words are compared, not the sentences around them: in a sentence even opposites come close ("rates will
    increase" and "rates will decrease" 0.89; the words alone 0.61). Only whole words in small letters are,
    so neither numbers nor names, and no negation, in languages that put spaces between words.
    """

    name: ClassVar[str] = "semantic"
    similarity: Similarity
    text: TokenText
    least: Annotated[float, Interval(gt=0, le=1)] = 0.75

    def accept(self, target: TargetRows, block: Block, seed: int) -> Verdict:
        return accept_where(target, block, seed, self._stands)

    def _stands(self, place: Place) -> bool:
        if not self._ends_there(place.block, place.node):
            return False
        guess, own = self.text(place.guess), self.text(place.own)
        return exchangeable(guess, own) and self.similarity(guess.strip(), own.strip()) >= self.least

    def _ends_there(self, block: Block, node: int) -> bool:
        """Whether the draft goes on with another word."""
        after = [self.text(block.token_ids[next_]) for next_ in trees.children(block.tree)[node + 1]]
        return bool(after) and not any(text[:1].isalnum() for text in after)


def exchangeable(guess: str, own: str) -> bool:
    """Whether both are whole words that have meanings to be compared."""
    return all(_plain_word(text) for text in (guess, own))


def _plain_word(text: str) -> bool:
    word = text[1:]
    plain = text[:1] == " " and len(word) > 1 and word.isalpha() and word.islower()
    return plain and word not in _NEGATIONS and word not in _NUMBERS
