"""Which tokens a head guesses: traffic may be full of some that it could not say."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_LEAST_SEEN = 3
_MOST_REPLACED = 0.25


def adapted(vocabulary: Tensor, counts: NDArray[np.int64]) -> Tensor:
    """Tokens that are frequent and that the head lacks, in the places of those that are rarer.

    A head's own weights do not depend on which tokens these are: their rows are the target's.

    Args:
        vocabulary: int64 [head's vocabulary], the most frequent first.
        counts: int64 [target's vocabulary], how often each token is in what the head is to know.
    """
    known = vocabulary.numpy().copy()
    lacking = counts.copy()
    lacking[known] = 0
    wanted = np.argsort(-lacking, kind="stable")[: int(len(known) * _MOST_REPLACED)]
    wanted = wanted[lacking[wanted] >= _LEAST_SEEN]
    rarest = np.lexsort((-np.arange(len(known)), counts[known]))[: len(wanted)]
    rarer = counts[known[rarest]] < lacking[wanted]
    known[rarest[rarer]] = wanted[rarer]
    return torch.from_numpy(known)
