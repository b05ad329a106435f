"""Chooses the verify replica and the drafts of one request."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice

from structlog.typing import FilteringBoundLogger

from common import logging
from common.errors import Unavailable
from common.types import DraftEndpoint, Plan
from router.registry import Endpoint, Registry

PoolRanking = Callable[[str], Sequence[str]]
"""The draft pools for a prompt class, best first. Learned rankings take the configured one's place."""


def configured_ranking(
    classes: Mapping[str, Sequence[str]], pools: Callable[[], Sequence[str]]
) -> PoolRanking:
    """The pools configured for a class, or all that are known at the time, in their order."""
    return lambda prompt_class: classes[prompt_class] if prompt_class in classes else pools()


class LeastLoaded:
    """Takes the least loaded available endpoint of a pool, ties broken at random.

    An endpoint that missed its last poll comes after all that did not, whatever the loads. Load is what
    the last poll reported plus the plans made since, so a burst between two polls spreads.
    """

    def __init__(
        self,
        registry: Registry,
        ranking: PoolRanking,
        *,
        max_drafts: int,
        rng: random.Random,
        log: FilteringBoundLogger | None = None,
    ) -> None:
        self._registry = registry
        self._ranking = ranking
        self._max_drafts = max_drafts
        self._rng = rng
        self._log = log or logging.get("router.policy")
        self._mismatches: set[tuple[str, str, str]] = set()

    def choose(
        self, prompt_class: str, *, speculation_disabled: bool = False, unreachable: Collection[str] = ()
    ) -> Plan:
        """A plan with drafts in order of preference, or with none and the reason why.

        Args:
            unreachable: addresses of verify replicas that are no choice.

        Raises:
            Unavailable: when no verify replica is ready.
        """
        verify = self._choose_verify(unreachable)
        pools = () if speculation_disabled else self._ranking(prompt_class)
        drafts = self._choose_drafts(pools, verify)
        drafting = "speculation disabled by the request" if speculation_disabled else _drafting(pools, drafts)
        reason = f"class {prompt_class}; {_verifying(verify)}; {drafting}"
        # A fallback carries no load until the draft before it fails.
        for endpoint in (verify, *drafts[:1]):
            endpoint.planned += 1
        endpoints = tuple(DraftEndpoint(draft.pool, draft.address) for draft in drafts)
        return Plan(prompt_class, verify.address, endpoints, reason)

    def _choose_verify(self, unreachable: Collection[str]) -> Endpoint:
        replicas = self._registry.verify()
        by_load = self._by_load(replica for replica in replicas if replica.address not in unreachable)
        if not by_load:
            raise Unavailable(f"no verify replica is ready, of {len(replicas)} known")
        return by_load[0]

    def _choose_drafts(self, pools: Iterable[str], verify: Endpoint) -> list[Endpoint]:
        """The best of the first pool, then its other replicas, then those of the next pools."""
        candidates = (
            draft
            for pool in pools
            for draft in self._by_load(self._registry.pool(pool))
            if not draft.full and self._same_vocabulary(draft, verify)
        )
        return list(islice(candidates, self._max_drafts))

    def _by_load(self, endpoints: Iterable[Endpoint]) -> list[Endpoint]:
        available = [endpoint for endpoint in endpoints if endpoint.available]
        return sorted(available, key=lambda e: (e.breaker.consecutive_failures, e.load, self._rng.random()))

    def _same_vocabulary(self, draft: Endpoint, verify: Endpoint) -> bool:
        ours, theirs = draft.report.fingerprint, verify.report.fingerprint
        if ours == theirs or not ours or not theirs:
            return True
        mismatch = (draft.address, ours, theirs)
        if mismatch not in self._mismatches:
            self._mismatches.add(mismatch)
            self._log.warning(
                "draft left out: its vocabulary is not the target's",
                draft=f"{draft.pool}@{draft.address}",
                draft_fingerprint=ours,
                verify=verify.address,
                verify_fingerprint=theirs,
            )
        return False


def _verifying(verify: Endpoint) -> str:
    of = f" of {verify.report.capacity}" if verify.report.capacity else ""
    return f"verify {verify.address} has {verify.load}{of} in flight"


def _drafting(pools: Sequence[str], drafts: Sequence[Endpoint]) -> str:
    if not pools:
        return "no draft pool for this class: plain decoding"
    if not drafts:
        return f"no draft available in {', '.join(pools)}: plain decoding"
    first, *rest = drafts
    sessions = "1 session" if first.load == 1 else f"{first.load} sessions"
    fallbacks = "".join(f", then {draft.pool}@{draft.address}" for draft in rest)
    return f"draft {first.pool}@{first.address} has {sessions}{fallbacks}"
