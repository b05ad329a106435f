"""Counter-based noise: the same (seed, stream, position, token) gives the same number on any machine.

A draft and a target that draw from this noise make the same choice wherever their distributions agree,
without exchanging anything but the seed (Gumbel coupling: Daliri et al. 2024, "Coupling without
Communication and Drafter-Invariant Speculative Decoding").
"""

from __future__ import annotations

import enum
import hashlib

import torch
from torch import Tensor

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB


class Stream(enum.IntEnum):
    """Independent noise for independent decisions at one position."""

    CHOICE = 1  # which token a distribution yields
    ACCEPT = 2  # whether rejection sampling takes a guess


def draft_seed(seed: int) -> int:
    """A seed for a draft's own samples, from which ``seed`` cannot be found.

    Rejection sampling is exact only while a guess does not depend on the target's noise, so that noise
    must stay unknown to the draft.
    """
    digest = hashlib.blake2b(
        seed.to_bytes(8, "little", signed=seed < 0), digest_size=8, person=b"tandem-draft"
    )
    return int.from_bytes(digest.digest(), "little")


def accept_uniform(seed: int, position: int, draw: int = 0) -> float:
    """The uniform in (0, 1) that decides whether guess ``draw`` at ``position`` is accepted."""
    bits = _mix(_mix(_state(seed, Stream.ACCEPT, position, draw)) + _GOLDEN)
    return ((bits >> 12) + 0.5) * 2.0**-52


def exponentials(seed: int, position: int, token_ids: Tensor, draw: int = 0) -> Tensor:
    """Unit-exponential noise of each token at ``position``.

    ``argmin(noise / p)`` is a sample from p, the same one as ``argmax(log p + Gumbel)`` with
    Gumbel = -log(noise).

    Args:
        token_ids: int64 of any shape.
        draw: other numbers give independent noise at the same position; the target's own choice is draw 0.

    Returns:
        float64 of the same shape, above 0.
    """
    state = _signed(_mix(_state(seed, Stream.CHOICE, position, draw)))
    bits = token_ids.mul(_signed(_GOLDEN)).add_(_signed((_GOLDEN + state) & _MASK))
    bits = _mix_tensor(bits)
    uniform = _shift_right(bits, 12).to(torch.float64).add_(0.5).mul_(2.0**-52)
    return uniform.log_().neg_()


def _state(seed: int, stream: Stream, position: int, draw: int) -> int:
    key = seed + (stream + draw * len(Stream)) * _GOLDEN
    return (_mix(key & _MASK) + position * _GOLDEN) & _MASK


def _mix(value: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014)."""
    value &= _MASK
    value = ((value ^ (value >> 30)) * _MIX_1) & _MASK
    value = ((value ^ (value >> 27)) * _MIX_2) & _MASK
    return value ^ (value >> 31)


def _mix_tensor(value: Tensor) -> Tensor:
    """``_mix`` on int64, whose products wrap around as unsigned ones do."""
    value = (value ^ _shift_right(value, 30)) * _signed(_MIX_1)
    value = (value ^ _shift_right(value, 27)) * _signed(_MIX_2)
    return value ^ _shift_right(value, 31)


def _shift_right(value: Tensor, bits: int) -> Tensor:
    """A logical shift; torch's own keeps the sign."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
