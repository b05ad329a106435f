"""The noise once more, in plain integers, straight from SplitMix64's definition."""

from __future__ import annotations

import math

MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def finalise(value: int) -> int:
    """``mix64`` of Steele, Lea and Flood 2014, with Stafford's variant 13 of the constants."""
    value &= MASK
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & MASK
    return value ^ (value >> 31)


def uniform(seed: int, stream: int, position: int, index: int, draw: int) -> float:
    """Number ``index`` of the generator that (seed, stream, position, draw) starts; there are two streams."""
    state = finalise(finalise(seed + (stream + 2 * draw) * GAMMA) + position * GAMMA)
    return ((finalise(state + (index + 1) * GAMMA) >> 12) + 0.5) * 2.0**-52


def exponential(seed: int, position: int, token_id: int, draw: int = 0) -> float:
    return -math.log(uniform(seed, 1, position, token_id, draw))


def accept_uniform(seed: int, position: int, draw: int = 0) -> float:
    return uniform(seed, 2, position, 0, draw)
