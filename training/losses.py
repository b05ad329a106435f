"""How far a head's guess at a token's distribution is from the target's, without keeping its logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

_CHUNK = 256
_LEAST = 1e-6

Divergence = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Logits float32 [rows, vocabulary], which may be overwritten, likeliest int64 [rows, k], their
probabilities float32 [rows, k], to the loss of each row [rows] and its gradient [rows, vocabulary]."""


def soft_cross_entropy(logits: Tensor, likeliest: Tensor, probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """-Σ p log q over the likeliest tokens. A row counts as much as they hold of the target's mass."""
    mass = probabilities.sum(-1, keepdim=True)
    total = logits.logsumexp(-1, keepdim=True)
    loss = mass * total - (probabilities * logits.gather(-1, likeliest)).sum(-1, keepdim=True)
    gradient = logits.sub_(total).exp_().mul_(mass)
    return loss.squeeze(-1), gradient.scatter_add_(-1, likeliest, -probabilities)


def forward_kl(logits: Tensor, likeliest: Tensor, probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """KL(p ‖ q): cross-entropy less what no q can save, so that 0 is perfect."""
    loss, gradient = soft_cross_entropy(logits, likeliest, probabilities)
    mass = probabilities.sum(-1)
    return loss + torch.special.xlogy(probabilities, probabilities).sum(-1) - mass * mass.log(), gradient


def reverse_kl(logits: Tensor, likeliest: Tensor, probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """KL(q ‖ p), which seeks the target's modes (Gu et al. 2024, "MiniLLM").

    What the likeliest tokens leave is spread evenly over the others.
    """
    others = max(logits.shape[-1] - likeliest.shape[-1], 1)
    rest = ((1 - probabilities.sum(-1, keepdim=True)).clamp(min=_LEAST) / others).log()
    log_q = logits.log_softmax(-1)
    difference = log_q - rest
    known = log_q.gather(-1, likeliest) - probabilities.clamp(min=_LEAST).log()
    difference.scatter_(-1, likeliest, known)
    q = log_q.exp_()
    loss = (q * difference).sum(-1, keepdim=True)
    return loss.squeeze(-1), q.mul_(difference.sub_(loss))


DIVERGENCES: Mapping[str, Divergence] = MappingProxyType(
    {"kl": forward_kl, "reverse_kl": reverse_kl, "soft_ce": soft_cross_entropy}
)


@dataclass(frozen=True, slots=True)
class Taught:
    """What the target says at each row.

    Attributes:
        likeliest: int64 [rows, k]; no token twice where it has a probability.
        probabilities: float32 [rows, k].
        weights: float32 [rows], what each counts.
    """

    likeliest: Tensor
    probabilities: Tensor
    weights: Tensor


class _Distilled(torch.autograd.Function):
    """The gradient is made with the loss, a few rows at a time, so that logits stay in the cache.

    As in the fused linear cross-entropy of Hsu et al. 2024, "Liger Kernel".
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, head: Tensor, taught: Taught, divergence: Divergence) -> Tensor:
        total = features.new_zeros((), dtype=torch.float32)
        gradient = torch.empty_like(features)
        for start in range(0, len(features), _CHUNK):
            rows = slice(start, start + _CHUNK)
            logits = (features[rows].to(head.dtype) @ head.T).float()
            loss, slope = divergence(logits, taught.likeliest[rows], taught.probabilities[rows])
            total += loss @ taught.weights[rows]
            slope.mul_(taught.weights[rows].unsqueeze(-1))
            gradient[rows] = (slope.to(head.dtype) @ head).to(gradient.dtype)
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        (gradient,) = ctx.saved_tensors
        return gradient * slopes[0].to(gradient.dtype), None, None, None


def distilled(features: Tensor, head: Tensor, taught: Taught, divergence: Divergence) -> Tensor:
    """The weighted sum of every row's divergence.

    Args:
        features: [rows, hidden], to be differentiated.
        head: [vocabulary, hidden], fixed.
    """
    loss: Tensor = _Distilled.apply(features, head, taught, divergence)  # type: ignore[no-untyped-call]
    return loss


def contrastive(features: Tensor, targets: Tensor, temperature: float = 0.1) -> Tensor:
    """Each guess should be nearest to its own target among all rows' (InfoNCE, van den Oord et al. 2018)."""
    likeness = F.normalize(features.float(), dim=-1) @ F.normalize(targets.float(), dim=-1).T
    return F.cross_entropy(likeness / temperature, torch.arange(len(features)))
