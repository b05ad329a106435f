"""The measurement: everybody in turn on the same prompts, round after round."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from bench.peers.contestant import Contestant

_WARM_UP_TOKENS = 4

Say = Callable[[str], None]


@dataclass
class Results:
    """
    Attributes:
        speeds: tokens per second by number of streams and contestant, one for each round.
        prefills: seconds to the first token by contestant, one for each round.
        lengths: mean tokens of an answer by contestant, over all that it gave.
    """

    speeds: dict[int, dict[str, list[float]]] = field(default_factory=dict)
    prefills: dict[str, list[float]] = field(default_factory=dict)
    lengths: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Course:
    """
    Attributes:
        streams: each number is measured for itself.
        prefill_ids: the prompt of a prefill by its number; no two share a prefix.
        pause_seconds: before each turn; an engine's threads go on spinning for a moment after theirs.
    """

    prompts: Sequence[str]
    max_tokens: int
    rounds: int
    streams: Sequence[int]
    prefill_ids: Callable[[int], Sequence[int]]
    pause_seconds: float = 0.05


async def run(contestants: Sequence[Contestant], course: Course, say: Say) -> Results:
    results = Results({streams: {} for streams in course.streams})
    await _warm_up(contestants, course)
    answered = dict.fromkeys((each.row.name for each in contestants), 0)
    for number in range(course.rounds):
        for streams in course.streams:
            say(f"round {number + 1} of {course.rounds}, streams: {streams}")
            lap = await _lap(contestants, course, streams)
            for name, (tokens, seconds) in lap.items():
                results.speeds[streams].setdefault(name, []).append(tokens / seconds)
                answered[name] += tokens
        await _prefills(contestants, course, number, results)
    for each in contestants:
        laps = course.rounds * sum(streams in each.row.streams for streams in course.streams)
        results.lengths[each.row.name] = answered[each.row.name] / max(laps * len(course.prompts), 1)
    return results


async def _warm_up(contestants: Sequence[Contestant], course: Course) -> None:
    for each in contestants:
        for streams in set(course.streams) & set(each.row.streams):
            await each.answer(course.prompts[:streams], streams, _WARM_UP_TOKENS)
        if each.row.prefills:
            await each.prefill(course.prefill_ids(0))


async def _lap(
    contestants: Sequence[Contestant], course: Course, streams: int
) -> dict[str, tuple[int, float]]:
    """Tokens and seconds by contestant. One stream changes hands after every prompt."""
    totals: dict[str, tuple[int, float]] = {}
    taking_part = [each for each in contestants if streams in each.row.streams]
    batches = [course.prompts] if streams > 1 else [[prompt] for prompt in course.prompts]
    for number, batch in enumerate(batches):
        for each in _turned(taking_part, number):
            await asyncio.sleep(course.pause_seconds)
            answered = await each.answer(batch, streams, course.max_tokens)
            tokens, seconds = totals.get(each.row.name, (0, 0.0))
            totals[each.row.name] = (tokens + answered.tokens, seconds + answered.seconds)
    return totals


async def _prefills(contestants: Sequence[Contestant], course: Course, number: int, results: Results) -> None:
    for each in contestants:
        if each.row.prefills:
            await asyncio.sleep(course.pause_seconds)
            seconds = await each.prefill(course.prefill_ids(number + 1))
            results.prefills.setdefault(each.row.name, []).append(seconds)


def _turned(contestants: Sequence[Contestant], by: int) -> Iterator[Contestant]:
    """From another one each time, so that nobody always follows the same neighbour."""
    for index in range(len(contestants)):
        yield contestants[(index + by) % len(contestants)]
