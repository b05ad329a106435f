"""Which answers are sampled, and what is noted of them: the target's likeliest tokens at each."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from common import sampling
from common.samples import LIKELIEST, LONGEST
from common.types import GenerateRequest
from verify_service.acceptance.lossy import Policy

Chance = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Sampling:
    """
    Attributes:
        share: of the answers that may be sampled.
        salted: whether those may that a ``cache_salt`` sets apart as one tenant's.
    """

    share: float = 0.0
    salted: bool = False

    def wants(
        self,
        request: GenerateRequest,
        policy: Policy | None,
        prompt_length: int,
        chance: Chance = random.random,
    ) -> bool:
        """Not what a lossy policy may have strayed in, nor what would have to be cut within its prompt."""
        apart = bool(request.cache_salt) and not self.salted
        if apart or policy or prompt_length >= LONGEST:
            return False
        return chance() < self.share


@dataclass(frozen=True, slots=True)
class Likeliest:
    """As of ``common.samples.Sample``: uint32 and float16 [tokens, LIKELIEST]."""

    token_ids: NDArray[np.uint32]
    probabilities: NDArray[np.float16]


def likeliest_of(rows: Tensor) -> Likeliest:
    """``rows``: raw logits [tokens, vocabulary]."""
    scores = rows.float()
    best = scores.topk(LIKELIEST)
    probabilities = (best.values - scores.logsumexp(-1, keepdim=True)).exp()
    return Likeliest(
        best.indices.cpu().numpy().astype(np.uint32), probabilities.cpu().numpy().astype(np.float16)
    )


class Draws:
    """Of one answer, as far as a sample may be long."""

    def __init__(self, prompt_length: int) -> None:
        self._left = LONGEST - prompt_length
        self._parts: list[Likeliest] = []

    def add(self, likeliest: Likeliest, delivered: int) -> None:
        """The first ``delivered`` tokens that a step decided."""
        taken = min(delivered, self._left)
        self._left -= taken
        if taken:
            self._parts.append(Likeliest(likeliest.token_ids[:taken], likeliest.probabilities[:taken]))

    @property
    def whole(self) -> Likeliest | None:
        """None: of no token."""
        if not self._parts:
            return None
        return Likeliest(
            np.concatenate([part.token_ids for part in self._parts]),
            np.concatenate([part.probabilities for part in self._parts]),
        )


def greedy(request: GenerateRequest, constrained: bool) -> bool:
    """Whether every token is what the target finds likeliest, whatever else was asked for."""
    params = request.sampling
    return params.greedy and not constrained and sampling.changes_nothing(params, None)
