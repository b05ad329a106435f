"""The endpoints the router knows, with their load and health. Discovery writes it, polls refresh it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from router.breaker import Breaker, State

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

    def refresh(self, report: Report, included: int) -> None:
        """Take a new report, which covers the first ``included`` of the planned requests."""
        self.report = report
        self.planned -= included


class Registry:
    """Pools of endpoints by name; the verify replicas are the pool ``verify``."""

    def __init__(self, new_breaker: Callable[[], Breaker]) -> None:
        self._new_breaker = new_breaker
        self._pools: dict[str, dict[str, Endpoint]] = {}

    def replace(self, pool: str, addresses: Iterable[str]) -> None:
        """Make ``addresses`` the whole of a pool; endpoints that stay keep what is known of them."""
        known = self._pools.get(pool, {})
        self._pools[pool] = {
            address: known.get(address) or Endpoint(pool, address, self._new_breaker())
            for address in addresses
        }

    def pool(self, name: str) -> Sequence[Endpoint]:
        """A pool's endpoints; none for a pool that is not known."""
        return list(self._pools.get(name, {}).values())

    def verify(self) -> Sequence[Endpoint]:
        return self.pool(VERIFY_POOL)

    def drafts(self) -> Sequence[Endpoint]:
        return [endpoint for endpoint in self if endpoint.pool != VERIFY_POOL]

    def __iter__(self) -> Iterator[Endpoint]:
        return iter([endpoint for pool in list(self._pools.values()) for endpoint in pool.values()])
