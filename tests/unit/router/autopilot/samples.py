"""Feedback as the tests of the autopilot want it."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from common.feedback import Drafted, FeedbackRecord
from router.autopilot.actions import Action, Kind
from router.autopilot.autopilot import Autopilot
from router.autopilot.limits import Limits

BLOCKS = 12
TOKENS = 80


def record(
    pool: str | None = "ngram",
    acceptance: float = 0.7,
    rate: float = 140.0,
    *,
    prompt_class: str = "chat",
    shadow: bool = False,
    positions: int = 4,
    created_ms: int = 1,
    noise: float = 0.0,
    rng: random.Random | None = None,
    **fields: object,
) -> FeedbackRecord:
    """An answer of 80 tokens. ``noise``: standard deviation of the logarithm of its rate."""
    rng = rng or random.Random(0)
    offered, accepted = [0] * positions, [0] * positions
    for _ in range(BLOCKS):
        for position in range(positions):
            offered[position] += 1
            if rng.random() >= acceptance:
                break
            accepted[position] += 1
    drafts = (Drafted(pool, "d:1", BLOCKS, 0, 0, 0.1, tuple(offered), tuple(accepted)),) if pool else ()
    seconds = TOKENS / (rate * math.exp(rng.gauss(0, noise)))
    speculated = pool is not None and not shadow
    return FeedbackRecord(
        prompt_class,
        created_ms,
        drafts,
        shadow=shadow,
        speculated_tokens=TOKENS if speculated else 0,
        speculated_seconds=seconds if speculated else 0.0,
        plain_tokens=0 if speculated else TOKENS,
        plain_seconds=0.0 if speculated else seconds,
        first_token_seconds=0.1,
        total_seconds=1.0,
        **fields,  # type: ignore[arg-type]
    )


@dataclass
class Traffic:
    """Requests of one class with one pool, drafted, watched or plain as the autopilot has it."""

    autopilot: Autopilot = field(default_factory=lambda: Autopilot(lambda _: ("ngram",)))
    plain_rate: float = 100.0
    seed: int = 0
    actions: list[Action] = field(default_factory=list)
    now_ms: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    @property
    def limits(self) -> Limits:
        return self.autopilot.limits

    def serve(self, requests: int, acceptance: float, rate: float, **fields: object) -> None:
        for _ in range(requests):
            self.now_ms += 1000
            self.autopilot.learn(self._answer(acceptance, rate, fields))
            taken = self.autopilot.decide(self.now_ms)
            self.actions += [*taken, *self.autopilot.trainings(self.now_ms, taken)]

    def kinds(self) -> list[Kind]:
        return [action.kind for action in self.actions if action.kind is not Kind.RETRAIN]

    def after(self, kind: Kind, begin_ms: int) -> float:
        """Requests from a point in time until the first action of a kind."""
        times = [action.at_ms - begin_ms for action in self.actions if action.kind is kind]
        return min((time for time in times if time > 0), default=math.inf) / 1000

    def _answer(self, acceptance: float, rate: float, fields: dict[str, object]) -> FeedbackRecord:
        pair, drawn = self.autopilot.pairs.get(("chat", "ngram")), self._rng.random()
        common = {"created_ms": self.now_ms, "noise": 0.2, "rng": self._rng, **fields}
        if drawn < (0.1 if self.autopilot.needs_plain("chat") else 0.02):
            return record(None, rate=self.plain_rate, **common)  # type: ignore[arg-type]
        if pair and pair.rest:
            watched = "ngram" if drawn < 0.12 else None
            return record(watched, acceptance, self.plain_rate, shadow=bool(watched), **common)  # type: ignore[arg-type]
        limit = pair.largest_block if pair and pair.largest_block else 4
        return record("ngram", acceptance, rate, positions=min(4, limit), **common)  # type: ignore[arg-type]
