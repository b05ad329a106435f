"""What to draft while the target judges a block: blocks for the ways in which that may end."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

from common import trees
from common.draft_types import Block

_LEAST_BELIEF = 0.02  # an outcome less likely than that is not worth the time
_FIRST_RATE = 0.6
_RATE_MEMORY = 8.0  # guesses


@dataclass(frozen=True, slots=True)
class Question:
    """What a source is to be asked as if ``assumed`` were committed.

    ``depth``: guesses that may follow each other; 0: as many as there are.
    """

    assumed: tuple[int, ...]
    block_size: int
    tree_width: int
    depth: int = 0


@dataclass(frozen=True, order=True, slots=True)
class _Outcome:
    """The target takes the guesses up to some point, and then a token that was not among them.

    Attributes:
        doubt: the belief that it comes to this, negative, so that the likeliest is the least.
        path: the tokens after the committed text; with ``complete`` that token is the last of them.
        followers: the guesses that the block had there.
    """

    doubt: float
    path: tuple[int, ...]
    followers: tuple[int, ...] = ()
    complete: bool = False

    @property
    def belief(self) -> float:
        return -self.doubt

    def after(self, count: int, share: float) -> _Outcome:
        """The same when ``count`` of its tokens are committed, for which ``share`` was believed."""
        return replace(self, doubt=max(self.doubt / share, -1.0), path=self.path[count:])


@dataclass(frozen=True, slots=True)
class Prepared:
    """
    Attributes:
        size: guesses that the source was asked for.
        belief: that the tokens it assumes will be committed.
    """

    block: Block
    size: int
    belief: float

    def after(self, count: int, share: float) -> Prepared:
        """The same with ``count`` of the tokens it assumes committed, for which ``share`` was believed."""
        block = replace(self.block, assumed=self.block.assumed[count:])
        return Prepared(block, self.size, min(self.belief / share, 1.0))


class Ahead:
    """One session's outcomes, the likeliest first, and the blocks that were made for them.

    The likeliest is often that all guesses stand; then comes a token of the target's own, and the source is
    asked which. Or the target stops at a guess; then it is asked for its next choice there. A block that is
    made for an outcome has outcomes of its own, so a draft that is mostly right gets several blocks ahead.

    An outcome is chosen for what the draft believes of it and the guesses it sent. What the target will do is
    not known here, so the guesses of the block are what they would have been had it been asked for later.
    """

    def __init__(self) -> None:
        self.prepared: list[Prepared] = []
        self._outcomes: list[_Outcome] = []
        self._most = 0
        self._size, self._width = 0, 1
        self._rate = _FIRST_RATE

    def allow(self, most: int, block_size: int, tree_width: int) -> None:
        """So many blocks may wait at a time, each of such a size; 0: none."""
        self._most, self._size, self._width = most, block_size, tree_width
        if not most or not block_size:
            self.stop()

    def stop(self) -> None:
        """Prepare nothing more until the next commit."""
        self._outcomes.clear()
        self._most = 0

    def judged(self, block: Block) -> None:
        """``block``, which was asked for, is what the target judges now."""
        self._outcomes.clear()
        if self._most:
            self._add(block, 1.0)

    def committed(self, token_ids: Sequence[int]) -> Prepared | None:
        """Forget what cannot come about any more; the block made for what has, if there is one.

        The target may have been given less of a block than was sent, so a commit may stop anywhere on the way
        to what a block assumes.
        """
        said = tuple(token_ids)
        found = next((prepared for prepared in self.prepared if prepared.block.assumed == said), None)
        share = found.belief if found else 1.0
        later = (p for p in self.prepared if p is not found and p.block.assumed[: len(said)] == said)
        self.prepared = [p.after(len(said), share) for p in later]
        outcomes, self._outcomes = self._outcomes, []
        for outcome in outcomes if found else ():
            if outcome.path[: len(said)] == said:
                self._push(outcome.after(len(said), share))
        return found and found.after(len(said), share)

    def learn(self, stood: int, fell: bool) -> None:
        """So many guesses in a row stood, and whether there was one more, which did not."""
        for right in [1.0] * stood + [0.0] * fell:
            self._rate += (right - self._rate) / _RATE_MEMORY

    def question(self) -> Question | None:
        """What to ask next; None: nothing."""
        if len(self.prepared) >= self._most or not self._outcomes:
            return None
        outcome = self._outcomes[0]
        if outcome.complete:
            return Question(outcome.path, self._size, self._width)
        choices = len(outcome.followers) + 1
        return Question(outcome.path, choices, choices, depth=1)

    def answered(self, block: Block | None) -> bool:
        """Take in what the source said; whether it is a block to be sent. None: it could not say."""
        outcome = heapq.heappop(self._outcomes)
        if block is None:
            return False
        if not outcome.complete:
            self._complete(outcome, block)
            return False
        self.prepared.append(Prepared(block, self._size, outcome.belief))
        self._add(block, outcome.belief)
        return True

    def _complete(self, outcome: _Outcome, said: Block) -> None:
        """Its last token is the first of ``said`` that the block did not have there."""
        firsts = [node for node, parent in enumerate(said.tree) if parent < 0]
        new = next((node for node in firsts if said.token_ids[node] not in outcome.followers), None)
        if new is None:
            return
        share = self._rate
        if said.confidences:
            ruled_out = sum(said.confidences[node] for node in firsts if node < new)
            share = said.confidences[new] / max(1 - ruled_out, said.confidences[new], _LEAST_BELIEF)
        path = (*outcome.path, said.token_ids[new])
        if all(prepared.block.assumed != path for prepared in self.prepared):
            self._push(_Outcome(-share * outcome.belief, path, complete=True))

    def _add(self, block: Block, belief: float) -> None:
        """The ways in which the judgement of ``block`` may end, which is believed to come about."""
        tree = block.tree
        following = trees.children(tree)
        worths = [1.0, *(block.confidences or (self._rate ** (depth + 1) for depth in trees.depths(tree)))]
        for row, followers in enumerate(following):
            stops = worths[row] - sum(worths[node + 1] for node in followers)
            if len(followers) < trees.MAX_WIDTH:
                path = tuple(block.token_ids[node] for node in trees.path(tree, row - 1))
                tokens = tuple(block.token_ids[node] for node in followers)
                self._push(_Outcome(-belief * stops, (*block.assumed, *path), tokens))

    def _push(self, outcome: _Outcome) -> None:
        if outcome.belief >= _LEAST_BELIEF:
            heapq.heappush(self._outcomes, outcome)
