"""What a block must be before it is looked at. A draft service is not trusted."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass, replace

from common import noise, sampling, trees
from common.draft_types import Block, SparseDistribution
from common.types import Mode
from verify_service import metrics
from verify_service.sequence import Sequence

_SUM_TOLERANCE = 1e-3
_MOST_SOURCES = 16
_SOURCE_NAME = re.compile(r"[a-z_]{1,32}")
_UNNAMEABLE = "other"


class InvalidBlock(Exception):
    """The block is not one; it is dropped and counted."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a block may be: so many guesses, so many of them after the same text, ids below ``vocabulary``.

    ``shown``: distributions are what the draft believed, not what it drew from.
    """

    guesses: int
    tree_width: int
    vocabulary_size: int
    mode: Mode
    shown: bool = False


def check_block(block: Block, asked: Asked) -> Block:
    """The block as acceptance may use it; a tree that is a chain has no ``parents``, and sources have names
    that may be shown.

    A block is refused for what no honest draft sends, never for what it happened to draw: under rejection
    sampling that would favour some outcomes.

    Raises:
        InvalidBlock: for token ids outside the vocabulary, too many guesses or siblings, lists that do not
            match, or distributions that are not.
    """
    if not 0 <= block.drafting_seconds < math.inf:
        raise InvalidBlock("a drafting time that is no time")
    if len(block.token_ids) > asked.guesses:
        raise InvalidBlock(f"{len(block.token_ids)} guesses where {asked.guesses} were asked for")
    if not all(token_id < asked.vocabulary_size for token_id in block.token_ids):
        raise InvalidBlock("a token id outside the vocabulary")
    if not {len(block.confidences), len(block.probabilities)} <= {0, len(block.token_ids)}:
        raise InvalidBlock("not one confidence or probability per guess")
    parents = _checked_parents(block, asked.tree_width)
    block = replace(block, sources=_checked_sources(block))
    if len(block.disagreements) not in {0, len(block.token_ids)} or any(map(math.isnan, block.disagreements)):
        raise InvalidBlock("not one disagreement per guess")
    if asked.mode is Mode.KEYED and not asked.shown:
        return replace(block, parents=parents, distributions=())
    if block.distributions and len(block.distributions) != len(block.token_ids):
        raise InvalidBlock("not one distribution per guess")
    for guess, distribution in zip(block.token_ids, block.distributions, strict=False):
        _check_distribution(guess, distribution, asked.vocabulary_size, drawn=not asked.shown)
    checked = replace(block, parents=parents)
    if block.distributions and not asked.shown:
        _check_siblings_left_out(checked)
    return checked


def _checked_parents(block: Block, width: int) -> tuple[int, ...]:
    count = len(block.token_ids)
    if block.parents in ((), trees.chain(count)):
        return ()
    if len(block.parents) != count or not all(-1 <= p < node for node, p in enumerate(block.parents)):
        raise InvalidBlock("parents that are no tree of the guesses")
    for siblings in trees.children(block.parents):
        if len(siblings) > width:
            raise InvalidBlock(f"{len(siblings)} guesses after the same text where {width} were asked for")
        if len({block.token_ids[node] for node in siblings}) != len(siblings):
            raise InvalidBlock("the same guess twice after the same text")
    return block.parents


def _checked_sources(block: Block) -> tuple[str, ...]:
    if block.sources and len(block.sources) != len(block.token_ids):
        raise InvalidBlock("not one source per guess")
    if len(set(block.sources)) > _MOST_SOURCES:
        raise InvalidBlock(f"more than {_MOST_SOURCES} sources")
    return tuple(name if _SOURCE_NAME.fullmatch(name) else _UNNAMEABLE for name in block.sources)


def _check_siblings_left_out(block: Block) -> None:
    """A draft that could have drawn the same token twice would be refused when it did, and only then."""
    for siblings in trees.children(block.tree):
        for earlier, later in itertools.combinations(siblings, 2):
            if block.token_ids[earlier] in block.distributions[later].token_ids:
                raise InvalidBlock("a distribution that holds an earlier sibling's token")


def _check_distribution(
    guess: int, distribution: SparseDistribution, vocabulary_size: int, *, drawn: bool
) -> None:
    """``drawn``: the guess is from it."""
    token_ids, probabilities = distribution.token_ids, distribution.probabilities
    if len(token_ids) != len(probabilities) or not 0 < len(token_ids) <= sampling.MAX_SUPPORT:
        raise InvalidBlock("a distribution whose lists do not match or are too long")
    if len(set(token_ids)) != len(token_ids) or not all(token_id < vocabulary_size for token_id in token_ids):
        raise InvalidBlock("a distribution over repeated or unknown tokens")
    if not all(math.isfinite(p) and p > 0 for p in probabilities):
        raise InvalidBlock("a distribution with a probability that is not a positive number")
    if abs(sum(probabilities) - 1) > _SUM_TOLERANCE or (drawn and guess not in token_ids):
        raise InvalidBlock("a distribution that does not sum to 1 or lacks its guess")


def sampled_as_declared(block: Block, seed: int) -> bool:
    """Whether every guess is the sample its declared q yields under the noise the draft was given.

    A q that the guess was not drawn from would bias rejection sampling. A draft that declares one q and
    samples from another, by mistake or not, shows here.
    """
    nodes = zip(
        block.token_ids, block.distributions, trees.depths(block.tree), trees.draws(block.tree), strict=True
    )
    return all(
        sampling.choose_sparse(distribution, seed, block.base_length + depth, draw) == token_id
        for token_id, distribution, depth, draw in nodes
    )


def honest(block: Block, sequence: Sequence) -> Block:
    """A q that the guesses were not drawn from is not used: one-hot is exact for any guess. So it is for
    guesses that may be left out for what they are. Lossy policies are shown beliefs that nothing was drawn
    from."""
    if sequence.policy or not block.distributions:
        return block
    if sequence.validators and sequence.mode is Mode.REJECTION:
        return replace(block, distributions=())
    if sampled_as_declared(block, noise.draft_seed(sequence.seed)):
        return block
    metrics.BLOCKS.labels("q_mismatch").inc()
    return replace(block, distributions=())
