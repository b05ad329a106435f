"""The endpoints the router knows, with their load and health. Discovery writes it, polls refresh it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from router.breaker import Breaker, Reason, State

VERIFY_POOL = "verify"


@dataclass(frozen=True, slots=True)
class Report:
    """What an endpoint says of itself; ``capacity`` 0 and ``fingerprint`` "" mean unknown.

    ``load`` counts a verify replica's running and waiting requests, a draft replica's sessions.
    """

    ready: bool = False
    load: int = 0
    capacity: int = 0
    fingerprint: str = ""


@dataclass(eq=False, slots=True)
class Endpoint:
    """One replica. ``planned`` counts the plans handed out that its report cannot include yet."""

    pool: str
    address: str
    breaker: Breaker
    report: Report = Report()
    planned: int = 0

    @property
    def load(self) -> int:
        return self.report.load + self.planned

    @property
    def full(self) -> bool:
        return 0 < self.report.capacity <= self.load

    @property
    def available(self) -> bool:
        return self.report.ready and self.breaker.state is State.CLOSED

    @property
    def answers(self) -> bool:
        """Whether it could be used, as far as polls tell."""
        return self.report.ready and self.breaker.reason is not Reason.FAILURES

    @property
    def ejected(self) -> bool:
        """Whether it is kept out although it answers."""
        return self.answers and self.breaker.reason is not None

    def refresh(self, report: Report, included: int) -> None:
        """Take a new report, which covers the first ``included`` of the planned requests."""
        self.report = report
        self.planned -= included


@dataclass(frozen=True, slots=True)
class Change:
    """Endpoints that joined or left a pool."""

    added: tuple[Endpoint, ...]
    removed: tuple[Endpoint, ...]


class Pool:
    """Endpoints of one kind, of which at most the share ``max_ejected`` is kept out although it answers.

    One that answers always stays. Endpoints that fail are no use to anybody: they do not count.
    """

    def __init__(self, name: str, max_ejected: float, ejections: Counter[Reason]) -> None:
        self.name = name
        self.endpoints: dict[str, Endpoint] = {}
        self._max_ejected = max_ejected
        self._ejections = ejections

    @property
    def ejected_share(self) -> float:
        """Of the endpoints that answer, those that are kept out all the same."""
        answering = self._answering()
        return sum(endpoint.ejected for endpoint in answering) / len(answering) if answering else 0.0

    def may_eject(self) -> bool:
        """Whether one more may be."""
        answering = self._answering()
        return sum(endpoint.ejected for endpoint in answering) < self._most_ejected(len(answering))

    def opened(self, reason: Reason) -> None:
        """To be told when a breaker opens."""
        self._ejections[reason] += 1
        self.review()

    def review(self) -> None:
        """Take back those ejected longest while, of the endpoints that still answer, too many are."""
        answering = self._answering()
        ejected = sorted((e for e in answering if e.ejected), key=lambda e: e.breaker.opened_at)
        for endpoint in ejected[: max(0, len(ejected) - self._most_ejected(len(answering)))]:
            endpoint.breaker.close()

    def _answering(self) -> list[Endpoint]:
        return [endpoint for endpoint in self.endpoints.values() if endpoint.answers]

    def _most_ejected(self, answering: int) -> int:
        return min(int(self._max_ejected * answering + 1e-9), answering - 1)


class Registry:
    """Pools of endpoints by name; the verify replicas are the pool ``verify``.

    Attributes:
        changes: what ``replace`` changed, for one reader.
        ejections: how often breakers opened.
    """

    def __init__(self, new_breaker: Callable[[Pool], Breaker], max_ejected: float = 0.5) -> None:
        self._new_breaker = new_breaker
        self._max_ejected = max_ejected
        self._pools: dict[str, Pool] = {}
        self.changes: asyncio.Queue[Change] = asyncio.Queue()
        self.ejections: Counter[Reason] = Counter()

    def replace(self, name: str, addresses: Iterable[str]) -> None:
        """Make ``addresses`` the whole of a pool; endpoints that stay keep what is known of them."""
        pool = self._pools.setdefault(name, Pool(name, self._max_ejected, self.ejections))
        before = pool.endpoints
        pool.endpoints = {
            address: before.get(address) or Endpoint(name, address, self._new_breaker(pool))
            for address in addresses
        }
        pool.review()
        self._tell(before, pool.endpoints)

    def review(self, name: str) -> None:
        """To be called when an endpoint of a pool became, or is no longer, available."""
        self._pools[name].review()

    def _tell(self, before: dict[str, Endpoint], after: dict[str, Endpoint]) -> None:
        added = tuple(endpoint for address, endpoint in after.items() if address not in before)
        removed = tuple(endpoint for address, endpoint in before.items() if address not in after)
        if added or removed:
            self.changes.put_nowait(Change(added, removed))

    def find(self, address: str) -> Endpoint | None:
        """The endpoint with an address, the first one if it is in several pools."""
        found = (pool.endpoints.get(address) for pool in self._pools.values())
        return next(filter(None, found), None)

    def pools(self) -> Sequence[Pool]:
        return list(self._pools.values())

    def draft_pools(self) -> Sequence[str]:
        """Their names, in the order in which they were first written."""
        return [name for name in self._pools if name != VERIFY_POOL]

    def pool(self, name: str) -> Sequence[Endpoint]:
        """A pool's endpoints; none for a pool that is not known."""
        return list(self._pools[name].endpoints.values()) if name in self._pools else []

    def verify(self) -> Sequence[Endpoint]:
        return self.pool(VERIFY_POOL)

    def drafts(self) -> Sequence[Endpoint]:
        return [endpoint for endpoint in self if endpoint.pool != VERIFY_POOL]

    def __iter__(self) -> Iterator[Endpoint]:
        return iter([endpoint for pool in self.pools() for endpoint in pool.endpoints.values()])
