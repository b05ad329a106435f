"""The last answers of a class with a draft pool, summed up."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from common.feedback import Drafted, FeedbackRecord

SIZE = 100
_FEWEST_AT_A_POSITION = 20


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer, as far as its first pool is concerned.

    Attributes:
        rate: tokens per second of verify time; None: too few to tell.
        perplexity: logarithm, by token; None: the answer was not sampled.
    """

    created_ms: int
    offered: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    rate: float | None = None
    perplexity: float | None = None
    consistency: float | None = None
    first_token_seconds: float = 0.0
    faults: int = 0
    blocks: int = 0


def sample_of(record: FeedbackRecord, drafted: Drafted | None, fewest_tokens: int) -> Sample:
    rated = record.tokens >= fewest_tokens and record.seconds > 0
    scored = record.scored_tokens
    return Sample(
        created_ms=record.created_ms,
        offered=drafted.offered if drafted else (),
        accepted=drafted.accepted if drafted else (),
        rate=record.tokens / record.seconds if rated else None,
        perplexity=-record.log_probability / scored if scored else None,
        consistency=record.consistency,
        first_token_seconds=record.first_token_seconds,
        faults=drafted.bad_blocks + drafted.missed_waits if drafted else 0,
        blocks=drafted.blocks if drafted else 0,
    )


@dataclass(slots=True)
class Window:
    """The last ``SIZE`` answers at most."""

    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SIZE))

    def add(self, sample: Sample) -> None:
        self.samples.append(sample)

    def __len__(self) -> int:
        return len(self.samples)

    def since(self, created_ms: int) -> Window:
        recent = (sample for sample in self.samples if sample.created_ms >= created_ms)
        return Window(deque(recent, maxlen=SIZE))

    def last(self, count: int) -> Window:
        """The latest answers with blocks, so many at most."""
        drafted = [sample for sample in self.samples if sample.blocks]
        return Window(deque(drafted[-count:], maxlen=SIZE))

    @property
    def drafted(self) -> int:
        """Answers with at least one block."""
        return sum(sample.blocks > 0 for sample in self.samples)

    @property
    def acceptance(self) -> float | None:
        """Of guesses that were come to, those that were right; None: there were none."""
        offered = sum(sum(sample.offered) for sample in self.samples)
        accepted = sum(sum(sample.accepted) for sample in self.samples)
        return accepted / offered if offered else None

    @property
    def truncation(self) -> list[float]:
        """By position, the share of blocks coming there that end there, as far as there are enough."""
        offered = _columns(sample.offered for sample in self.samples)
        accepted = _columns(sample.accepted for sample in self.samples)
        known = [pair for pair in zip(offered, accepted, strict=True) if pair[0] >= _FEWEST_AT_A_POSITION]
        return [1 - stood / came for came, stood in known]

    @property
    def rate(self) -> float | None:
        """Geometric mean of tokens per second of verify time."""
        mean = _mean(math.log(sample.rate) for sample in self.samples if sample.rate)
        return None if mean is None else math.exp(mean)

    @property
    def rated(self) -> int:
        return sum(sample.rate is not None for sample in self.samples)

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithm of rates."""
        logs = [math.log(sample.rate) for sample in self.samples if sample.rate]
        mean = _mean(logs)
        if mean is None or len(logs) < 2:
            return 0.0
        return math.sqrt(sum((value - mean) ** 2 for value in logs) / (len(logs) - 1))

    @property
    def perplexity(self) -> float | None:
        """Of the answers under the target; None: none was sampled."""
        mean = _mean(sample.perplexity for sample in self.samples if sample.perplexity is not None)
        return None if mean is None else math.exp(mean)

    @property
    def scored(self) -> int:
        return sum(sample.perplexity is not None for sample in self.samples)

    @property
    def consistency(self) -> float | None:
        return _mean(sample.consistency for sample in self.samples if sample.consistency is not None)

    @property
    def compared(self) -> int:
        return sum(sample.consistency is not None for sample in self.samples)

    def late(self, seconds: float) -> float:
        """Share of answers whose first token took longer."""
        return _mean(float(sample.first_token_seconds > seconds) for sample in self.samples) or 0.0


def _columns(rows: Iterable[Sequence[int]]) -> list[int]:
    """The sums of numbers at the same place."""
    sums: list[int] = []
    for row in rows:
        sums += [0] * (len(row) - len(sums))
        for place, value in enumerate(row):
            sums[place] += value
    return sums


def _mean(values: Iterable[float]) -> float | None:
    given = list(values)
    return sum(given) / len(given) if given else None
