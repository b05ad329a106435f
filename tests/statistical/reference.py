"""The target's distribution worked out the slow, plain way, independent of ``common.sampling``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from common.types import SamplingParams

PROMPT = (5, 9, 33, 12, 5)
Array = NDArray[np.float64]
Allows = Callable[[tuple[int, ...], int], bool]
"""Whether a token may follow the output so far."""


class Target:
    """Next-token distributions of a tiny model after a fixed prompt and up to two more tokens.

    ``allowed`` may be set to leave tokens out.
    """

    def __init__(self, model: Any, prompt: Sequence[int]) -> None:
        self.allowed: Allows = lambda context, token: True
        self.prompt = list(prompt)
        self.vocabulary = int(model.config.vocab_size)
        contexts = [(), *((a,) for a in range(self.vocabulary))]
        contexts += list(itertools.product(range(self.vocabulary), repeat=2))
        self._logits: dict[tuple[int, ...], Array] = {}
        for length in range(3):
            batch = [c for c in contexts if len(c) == length]
            tokens = torch.tensor([[*self.prompt, *context] for context in batch])
            with torch.inference_mode():
                model.set_attn_implementation("sdpa")
                rows = model(input_ids=tokens, use_cache=False).logits[:, -1].double().numpy()
            self._logits.update(zip(batch, rows, strict=True))
        model.set_attn_implementation("tandem_paged")
        self._known: dict[tuple[tuple[int, ...], str], Array] = {}

    def distribution(self, context: tuple[int, ...], params: SamplingParams) -> Array:
        """[vocabulary], worked out once per context and parameters; the seed does not matter."""
        key = (context, f"{params} {id(self.allowed)}")
        if key not in self._known:
            self._known[key] = self._distribution(context, params)
        return self._known[key]

    def _distribution(self, context: tuple[int, ...], params: SamplingParams) -> Array:
        """What is allowed, penalties, bias, temperature, top-k, top-p, min-p, in that order."""
        logits = self._logits[context].copy()
        for token in range(self.vocabulary):
            if not self.allowed(context, token):
                logits[token] = -np.inf
            count = context.count(token)
            if token in self.prompt or count:
                penalty = params.repetition_penalty
                logits[token] = logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
            logits[token] -= params.frequency_penalty * count + params.presence_penalty * (count > 0)
            logits[token] += params.logit_bias.get(token, 0.0)
        order = np.argsort(-logits)
        weights = np.exp((logits - logits.max()) / params.temperature)
        if params.top_k:
            weights[order[params.top_k :]] = 0
        weights /= weights.sum()
        if params.top_p < 1:
            mass = 0.0
            for token in order:
                if mass >= params.top_p:
                    weights[token] = 0
                mass += weights[token]
            weights /= weights.sum()
        weights[weights < params.min_p * weights.max()] = 0
        return np.asarray(weights / weights.sum())

    def outcomes(self, params: SamplingParams) -> Array:
        """[vocabulary, vocabulary, vocabulary]: the probability of each three-token answer."""
        first = self.distribution((), params)
        joint = np.zeros((self.vocabulary,) * 3)
        for a in np.flatnonzero(first):
            second = self.distribution((int(a),), params)
            for b in np.flatnonzero(second):
                joint[a, b] = first[a] * second[b] * self.distribution((int(a), int(b)), params)
        return joint
