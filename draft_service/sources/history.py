"""Recent answers, each tenant's by itself."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from draft_service.sources.occurrences import Occurrences


@dataclass(slots=True, eq=False)
class _Answers:
    """``lengths``: of the answers in ``texts``, the oldest first."""

    texts: Occurrences = field(default_factory=Occurrences)
    lengths: deque[int] = field(default_factory=deque)

    def drop_oldest(self) -> None:
        self.texts.drop(self.lengths.popleft())


class History:
    """Bounded in every way: what is too much falls out in whole answers, the oldest first.

    A tenant's store keeps within its own bound. Where there are too many tenants, or too many tokens in all,
    the tenant goes or loses an answer that has been asked for and added to longest ago.
    """

    def __init__(self, tokens: int, tenant_tokens: int, tenants: int) -> None:
        """
        Args:
            tokens: most of all tenants together; an answer counts one more than it has.
            tenant_tokens: most of one tenant; an answer with more is not kept.
            tenants: most that have answers here.
        """
        self._most_tokens = tokens
        self._most_of_a_tenant = tenant_tokens
        self._most_tenants = tenants
        self._tenants: OrderedDict[str, _Answers] = OrderedDict()

    @property
    def num_tokens(self) -> int:
        return sum(len(answers.texts) for answers in self._tenants.values())

    @property
    def num_tenants(self) -> int:
        return len(self._tenants)

    def of(self, tenant: str) -> Occurrences | None:
        """The tenant's answers; None: there are none."""
        answers = self._tenants.get(tenant)
        if answers is None:
            return None
        self._tenants.move_to_end(tenant)
        return answers.texts

    def add(self, tenant: str, answer: Sequence[int]) -> None:
        if not 0 < len(answer) < min(self._most_of_a_tenant, self._most_tokens):
            return
        answers = self._tenants.setdefault(tenant, _Answers())
        self._tenants.move_to_end(tenant)
        answers.texts.extend(answer)
        answers.lengths.append(answers.texts.end_text())
        while len(answers.texts) > self._most_of_a_tenant:
            answers.drop_oldest()
        if len(self._tenants) > self._most_tenants:
            self._tenants.popitem(last=False)
        while self.num_tokens > self._most_tokens:
            self._shrink()

    def _shrink(self) -> None:
        tenant, answers = next(iter(self._tenants.items()))
        answers.drop_oldest()
        if not answers.lengths:
            del self._tenants[tenant]
