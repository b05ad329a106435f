"""What a draft model says of the next token, held to what the target is held to."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from common import noise, sampling
from common.errors import InvalidRequest
from common.types import Mode
from draft_service.session import Session


def adjusted(session: Session, logits: Tensor, path: Sequence[int]) -> Tensor:
    """The logits as the target will adjust its own; without the grammar, where it takes too much here.

    Args:
        logits: [vocabulary], after the committed tokens and ``path``; ``session.follow`` has been called.

    Returns:
        float64 [1, vocabulary].
    """
    arguments = (logits[None], session.sampling, session.tokens, session.prompt_length, [path])
    try:
        return sampling.adjust(*arguments, allowed=session.allowed)
    except InvalidRequest:
        session.allowed = None
        return sampling.adjust(*arguments)


def beliefs(session: Session, logits: Tensor, path: Sequence[int]) -> Tensor:
    """Of each token to be the target's choice: [vocabulary].

    Greedy: the model's probabilities. Rejection: those under the session's sampling. Keyed: p / E, with E the
    exponential noise of each token, is exp(log p + Gumbel), whose largest is the choice; what the target's p
    does to that order is unknown.
    """
    if session.sampling.greedy:
        plain = sampling.changes_nothing(session.sampling, session.allowed)
        return (logits if plain else adjusted(session, logits, path)[0]).softmax(-1)
    probs = sampling.probabilities(adjusted(session, logits, path), session.sampling)[0]
    if session.mode is Mode.REJECTION:
        return probs
    support = probs.nonzero().squeeze(-1)
    race = noise.exponentials(session.noise_seed, len(session.tokens) + len(path), support)
    scores = probs[support] / race
    return torch.zeros_like(probs).index_copy_(0, support, scores / scores.sum())
