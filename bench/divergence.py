"""How far one model's predictions are from a reference's, over the same tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Divergence:
    """Sums over positions; p is the reference's distribution, q the other's.

    Attributes:
        reference_nats: −Σ log p(token), of the tokens that the text has.
        nats: −Σ log q(token).
        agreements: at how many positions both have the same most likely token.
        kl_nats: Σ KL(p ‖ q).
    """

    positions: int = 0
    reference_nats: float = 0.0
    nats: float = 0.0
    agreements: int = 0
    kl_nats: float = 0.0

    def add(self, reference: Tensor, other: Tensor, token_ids: Tensor) -> None:
        """
        Args:
            reference: logits [positions, vocabulary].
            other: the same of the other model.
            token_ids: [positions], what the text has there.
        """
        p, q = reference.float().log_softmax(-1), other.float().log_softmax(-1)
        self.positions += len(token_ids)
        self.reference_nats -= _picked(p, token_ids)
        self.nats -= _picked(q, token_ids)
        self.agreements += int((p.argmax(-1) == q.argmax(-1)).sum())
        self.kl_nats += float(torch.nn.functional.kl_div(q, p, log_target=True, reduction="sum"))

    @property
    def perplexity(self) -> float:
        return math.exp(self.nats / self.positions)

    @property
    def perplexity_ratio(self) -> float:
        """To the reference's."""
        return math.exp((self.nats - self.reference_nats) / self.positions)

    @property
    def agreement(self) -> float:
        return self.agreements / self.positions

    @property
    def mean_kl(self) -> float:
        """In nats per position."""
        return self.kl_nats / self.positions


def _picked(log_probabilities: Tensor, token_ids: Tensor) -> float:
    return float(log_probabilities.gather(1, token_ids.unsqueeze(1)).sum(dtype=torch.float64))
