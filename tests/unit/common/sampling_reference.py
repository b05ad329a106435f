"""The sampling maths once more: slow, in plain Python, one token at a time, from the definitions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from common.types import SamplingParams


def adjust(
    logits: Sequence[float],
    params: SamplingParams,
    prompt: Sequence[int],
    output: Sequence[int],
) -> list[float]:
    """Repetition over prompt and output, frequency and presence over the output; then the bias."""
    adjusted = []
    for token, logit in enumerate(logits):
        value = logit
        if token in prompt or token in output:
            penalty = params.repetition_penalty
            value = value / penalty if value > 0 else value * penalty
        value -= params.frequency_penalty * list(output).count(token)
        value -= params.presence_penalty * (token in output)
        adjusted.append(value + params.logit_bias.get(token, 0.0))
    return adjusted


def probabilities(logits: Sequence[float], params: SamplingParams) -> list[float]:
    """Temperature, top-k, top-p, min-p, each on what the one before left; ties at a threshold stay."""
    if params.temperature == 0:
        return [float(token == list(logits).index(max(logits))) for token in range(len(logits))]
    kept = set(range(len(logits)))
    if params.top_k:
        threshold = sorted(logits, reverse=True)[: params.top_k][-1]
        kept = {token for token in kept if logits[token] >= threshold}
    probs = _softmax(logits, kept, params.temperature)
    if params.top_p < 1:
        probs = _at_least(probs, _nucleus_threshold(probs, params.top_p))
    return _at_least(probs, params.min_p * max(probs))


def _softmax(logits: Sequence[float], kept: set[int], temperature: float) -> list[float]:
    top = max(logits[token] for token in kept)
    weights = [
        math.exp((logit - top) / temperature) if token in kept else 0.0 for token, logit in enumerate(logits)
    ]
    return [weight / math.fsum(weights) for weight in weights]


def _nucleus_threshold(probs: Sequence[float], top_p: float) -> float:
    """The smallest probability in the smallest set of the likeliest tokens that holds ``top_p``."""
    held = 0.0
    for probability in sorted(probs, reverse=True):
        held += probability
        if held >= top_p:
            return probability
    return 0.0


def _at_least(probs: Sequence[float], threshold: float) -> list[float]:
    kept = [probability if probability >= threshold else 0.0 for probability in probs]
    return [probability / math.fsum(kept) for probability in kept]
