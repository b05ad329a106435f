"""Which of several replicas serves a request."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Sequence

from router.registry import Endpoint


def by_load(endpoints: Sequence[Endpoint], rng: random.Random) -> list[Endpoint]:
    """Least loaded first, ties at random; one that missed its last poll after all that did not."""
    return sorted(endpoints, key=lambda each: (*_burden(each), rng.random()))


def two_choices(endpoints: Sequence[Endpoint], rng: random.Random) -> list[Endpoint]:
    """The less loaded of two picked at random, then the others by load.

    What is known of loads is old, and the least loaded of all would be flooded by everybody who knows the
    same (Mitzenmacher 2001).
    """
    if len(endpoints) < 2:
        return list(endpoints)
    first = min(rng.sample(list(endpoints), 2), key=_burden)
    return [first, *by_load([each for each in endpoints if each is not first], rng)]


def affine(
    endpoints: Sequence[Endpoint], key: str, most_over_mean: float, rng: random.Random
) -> list[Endpoint]:
    """The replicas as prompts of this beginning prefer them, those with too much load last.

    Every router computes the same order from the addresses alone, and a replica that comes or goes moves only
    the keys that are its own (rendezvous hashing, Thaler & Ravishankar 1998). None gets more than
    ``most_over_mean`` times the mean load (consistent hashing with bounded loads, Mirrokni et al. 2018).

    Args:
        key: equal for prompts that begin alike; empty: by load alone.
    """
    if not key:
        return by_load(endpoints, rng)
    most = math.ceil(most_over_mean * (1 + sum(each.load for each in endpoints)) / max(len(endpoints), 1))
    fitting = [each for each in endpoints if each.load < most and not each.full and not _failing(each)]
    preferred = sorted(fitting, key=lambda each: _score(key, each.address), reverse=True)
    return [*preferred, *by_load([each for each in endpoints if each not in fitting], rng)]


def _score(key: str, address: str) -> bytes:
    return hashlib.blake2b(f"{key}\0{address}".encode(), digest_size=8).digest()


def _failing(endpoint: Endpoint) -> bool:
    return endpoint.breaker.consecutive_failures > 0


def _burden(endpoint: Endpoint) -> tuple[int, int]:
    return endpoint.breaker.consecutive_failures, endpoint.load
