"""Chooses the verify replica and the drafts of one request."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import islice

from structlog.typing import FilteringBoundLogger

from common import logging
from common.errors import Unavailable
from common.types import DraftEndpoint, Plan, RouteRequest
from router.drafting import Classes, Drafting, Pools
from router.placement import affine, two_choices
from router.registry import Endpoint, Registry
from router.steering import Steering

_NO_SPECULATION = Pools(why="speculation disabled by the request")


class Planner:
    """Places a request on the replica that its prefix prefers and on a lightly loaded draft.

    An endpoint that missed its last poll comes after all that did not, whatever the loads. Load is what
    the last poll reported plus the plans made since, so a burst between two polls spreads.
    """

    def __init__(
        self,
        registry: Registry,
        drafting: Drafting,
        *,
        max_drafts: int,
        most_over_mean: float = 1.25,
        steering: Callable[[], Steering] = Steering,
        rng: random.Random,
        log: FilteringBoundLogger | None = None,
    ) -> None:
        """``most_over_mean``: see ``placement.affine``."""
        self._registry = registry
        self._drafting = drafting
        self._max_drafts = max_drafts
        self._most_over_mean = most_over_mean
        self._steering = steering
        self._rng = rng
        self._log = log or logging.get("router.policy")
        self._mismatches: set[tuple[str, str, str]] = set()

    def plan(self, request: RouteRequest, classes: Classes) -> Plan:
        """A plan with drafts in order of preference, or with none and the reason why.

        Raises:
            Unavailable: when no verify replica is ready.
        """
        verify = self._choose_verify(request)
        pools = _NO_SPECULATION if request.speculation_disabled else self._drafting.choose(classes)
        drafts = self._choose_drafts(pools.names, verify)
        reason = f"class {_named(classes)}; {_verifying(verify)}; {_drafting(pools, drafts)}"
        # A fallback carries no load until the draft before it fails.
        for endpoint in (verify, *drafts[:1]):
            endpoint.planned += 1
        prompt_class = classes[0][0]
        first = drafts[0].pool if drafts else ""
        return Plan(
            prompt_class,
            verify.address,
            tuple(DraftEndpoint(draft.pool, draft.address) for draft in drafts),
            reason,
            self._steering().largest_block.get((prompt_class, first), 0),
            pools.shadow and bool(drafts),
        )

    def _choose_verify(self, request: RouteRequest) -> Endpoint:
        """One that just failed the request is the last resort."""
        replicas = self._registry.verify()
        available = [endpoint for endpoint in replicas if endpoint.available]
        if not available:
            raise Unavailable(f"no verify replica is ready, of {len(replicas)} known")
        others = [endpoint for endpoint in available if endpoint.address not in request.avoid]
        return affine(others or available, request.prefix_key, self._most_over_mean, self._rng)[0]

    def _choose_drafts(self, pools: Iterable[str], verify: Endpoint) -> list[Endpoint]:
        """One of the first pool, then its other replicas, then those of the next pools."""
        candidates = (draft for pool in pools for draft in two_choices(self._usable(pool, verify), self._rng))
        return list(islice(candidates, self._max_drafts))

    def _usable(self, pool: str, verify: Endpoint) -> list[Endpoint]:
        return [
            draft
            for draft in self._registry.pool(pool)
            if draft.available and not draft.full and self._same_vocabulary(draft, verify)
        ]

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


def _named(classes: Classes) -> str:
    return ", ".join(f"{name} {weight:.2f}" for name, weight in classes)


def _verifying(verify: Endpoint) -> str:
    of = f" of {verify.report.capacity}" if verify.report.capacity else ""
    return f"verify {verify.address} has {verify.load}{of} in flight"


def _drafting(pools: Pools, drafts: list[Endpoint]) -> str:
    if not pools.names:
        return pools.why
    if not drafts:
        return f"no draft available in {', '.join(pools.names)}: plain decoding"
    first, *rest = drafts
    sessions = "1 session" if first.load == 1 else f"{first.load} sessions"
    fallbacks = "".join(f", then {draft.pool}@{draft.address}" for draft in rest)
    why = f" ({pools.why})" if pools.why else ""
    return f"draft {first.pool}@{first.address}{why} has {sessions}{fallbacks}"
