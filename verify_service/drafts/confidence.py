"""Guesses that their draft does not believe in are not worth a row of the pass."""

from __future__ import annotations

import math

from common import trees
from common.draft_types import Block


def sure_enough(block: Block, least: float, drawn: bool) -> tuple[int, ...]:
    """The guesses at positions of which their draft is as sure as ``least``, and so it is on the way there.

    A position is as sure as its guesses are together, given that what is before it stands; siblings share one
    lot, as they are there for the case that an elder one falls. ``drawn``: the guesses are from their q.

    Whether a guess is left out must not bias what the target says. Let x be a guess for a position, c its
    confidence, and let the guess be left out when c < ``least``; the target's token is then drawn from p.

    - Keyed or greedy: the token is a function of the target and its noise. No guess has a part in it.
    - Rejection, x without a q, so that it counts as one-hot: for every fixed x the token has distribution p,
      as x stands with probability p(x) and else norm(p without x) is drawn from. Left out, it is drawn from p
      too. A mixture of p and p is p, however c depends on x.
    - Rejection, x drawn from q: only *on average over q* does judging x yield p. What is judged is x given
      that it was kept. If c depends on x, that is q(x | kept), not the q that x is judged by, and the token
      is biased towards what is kept: with p = q uniform over a and b, and b always unsure, a is kept and
      stands, b is left out and drawn anew, and a comes out three times in four. If c is a function of what
      was known before x was drawn (the text, the guesses on its path, its earlier siblings, q itself), then
      given those q(x | kept) = q(x), and the token has distribution p either way. A later guess may be left
      out for what an earlier one turned out to be: it has no say about positions before its own.

    What a declared confidence depends on is the draft's secret. So guesses with a q are measured by that q,
    which is fixed before they are drawn (``_before_the_draw``), and the declared confidences are not looked
    at. Of siblings only the first counts then: the q of the others, and whether they are there at all, depend
    on what the first turned out to be. tests/statistical/test_confidence.py shows both halves.
    """
    beliefs = _before_the_draw(block) if drawn else block.confidences
    if not beliefs:
        return tuple(range(len(block.token_ids)))
    kept: set[int] = {-1}
    for parent, siblings in enumerate(trees.children(block.tree), start=-1):
        before = beliefs[parent] if parent >= 0 else 1.0
        counted = siblings[:1] if drawn else siblings
        if parent in kept and siblings and sum(beliefs[node] for node in counted) >= least * before:
            kept.update(siblings)
    return tuple(sorted(kept - {-1}))


def _before_the_draw(block: Block) -> list[float]:
    """How likely the target is to come to each guess and take it, as far as q tells: the surer q is, the more
    of it the target shares. As drafts rate their own guesses (``draft_service/sources/growing.py``)."""
    worths: list[float] = []
    reached = [1.0] * (len(block.token_ids) + 1)  # of the root and of each guess: by its next follower
    for node, (parent, q) in enumerate(zip(block.tree, block.distributions, strict=True)):
        taken = math.sqrt(max(q.probabilities))
        worths.append(reached[parent + 1] * taken)
        reached[parent + 1] *= 1 - taken
        reached[node + 1] = worths[node]
    return worths
