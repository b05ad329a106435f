"""What a block must be before it is looked at. A draft service is not trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from common import sampling
from common.types import Block, Mode, SparseDistribution

_SUM_TOLERANCE = 1e-3


class InvalidBlock(Exception):
    """The block is not one; it is dropped and counted."""


def check_block(block: Block, vocabulary_size: int, largest: int, mode: Mode) -> Block:
    """The block as acceptance may use it: at most ``largest`` guesses, in a chain.

    Raises:
        InvalidBlock: for token ids outside the vocabulary, a tree, lists that do not match, or
            distributions that are not.
    """
    if not 0 <= block.drafting_seconds < math.inf:
        raise InvalidBlock("a drafting time that is no time")
    if len(block.token_ids) > largest:
        raise InvalidBlock(f"{len(block.token_ids)} guesses where {largest} were asked for")
    if not all(token_id < vocabulary_size for token_id in block.token_ids):
        raise InvalidBlock("a token id outside the vocabulary")
    if block.parents and block.parents != tuple(range(-1, len(block.token_ids) - 1)):
        raise InvalidBlock("a tree where a chain was asked for")
    if mode is Mode.KEYED:
        return replace(block, parents=(), distributions=())
    if block.distributions and len(block.distributions) != len(block.token_ids):
        raise InvalidBlock("not one distribution per guess")
    for guess, distribution in zip(block.token_ids, block.distributions, strict=False):
        _check_distribution(guess, distribution, vocabulary_size)
    return replace(block, parents=())


def _check_distribution(guess: int, distribution: SparseDistribution, vocabulary_size: int) -> None:
    token_ids, probabilities = distribution.token_ids, distribution.probabilities
    if len(token_ids) != len(probabilities) or not 0 < len(token_ids) <= sampling.MAX_SUPPORT:
        raise InvalidBlock("a distribution whose lists do not match or are too long")
    if len(set(token_ids)) != len(token_ids) or not all(token_id < vocabulary_size for token_id in token_ids):
        raise InvalidBlock("a distribution over repeated or unknown tokens")
    if not all(math.isfinite(p) and p > 0 for p in probabilities):
        raise InvalidBlock("a distribution with a probability that is not a positive number")
    if abs(sum(probabilities) - 1) > _SUM_TOLERANCE or guess not in token_ids:
        raise InvalidBlock("a distribution that does not sum to 1 or lacks its guess")


def sampled_as_declared(
    token_ids: Sequence[int], distributions: Sequence[SparseDistribution], seed: int, position: int
) -> bool:
    """Whether every guess is the sample its declared q yields under the noise the draft was given.

    A q that the guess was not drawn from would bias rejection sampling. A draft that declares one q and
    samples from another, by mistake or not, shows here.
    """
    return all(
        sampling.choose_sparse(distribution, seed, position + index) == token_id
        for index, (token_id, distribution) in enumerate(zip(token_ids, distributions, strict=True))
    )
