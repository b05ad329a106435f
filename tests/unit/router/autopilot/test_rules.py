"""What is found in a window."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from router.autopilot.limits import Limits
from router.autopilot.pair import first_of
from router.autopilot.rules import Trouble, findings
from router.autopilot.windows import Window, sample_of
from tests.unit.router.autopilot.samples import record

LIMITS = Limits()


def window(count: int = 30, pool: str | None = "ngram", **fields: object) -> Window:
    made, rng = Window(), random.Random(1)
    for _ in range(count):
        answer = record(pool, rng=rng, **fields)  # type: ignore[arg-type]
        made.add(sample_of(answer, first_of(answer), LIMITS.fewest_tokens))
    return made


PLAIN = window(pool=None, rate=100.0)


def troubles(drafted: Window, plain: Window = PLAIN) -> list[Trouble]:
    return [finding.trouble for finding in findings(drafted, plain, LIMITS)]


@pytest.mark.parametrize(
    ("drafted", "expected"),
    [
        (window(rate=140.0, acceptance=0.3), []),
        (window(rate=100.0, acceptance=0.95), []),
        (window(rate=100.0, acceptance=0.01), [Trouble.USELESS]),
        (window(rate=90.0, acceptance=0.95), [Trouble.SLOWER]),
        (window(rate=90.0, acceptance=0.01), [Trouble.USELESS, Trouble.SLOWER]),
        (window(rate=100.0, acceptance=0.5), [Trouble.ACCEPTANCE, Trouble.TRUNCATION]),
        (window(rate=100.0, acceptance=0.78), [Trouble.TRUNCATION]),
        (window(rate=100.0, acceptance=0.95, consistency=0.5), [Trouble.CONSISTENCY]),
        (window(rate=140.0, acceptance=0.95, consistency=0.5), []),
        (window(count=10, rate=50.0, acceptance=0.0), []),
    ],
)
def test_troubles(drafted: Window, expected: list[Trouble]) -> None:
    assert troubles(drafted) == expected


def test_late_first_tokens_are_found() -> None:
    late = window(rate=100.0, acceptance=0.95)
    for sample in list(late.samples)[:3]:
        late.samples.remove(sample)
    slow = record(rate=100.0, acceptance=0.95)
    for _ in range(3):
        late.add(replace(sample_of(slow, first_of(slow), 8), first_token_seconds=2.0))
    assert troubles(late) == [Trouble.LATE]


def test_without_plain_answers_only_uselessness_can_be_known() -> None:
    assert troubles(window(rate=50.0, acceptance=0.3), Window()) == []
    assert troubles(window(rate=50.0, acceptance=0.01), Window()) == [Trouble.USELESS]


def test_a_difference_within_the_noise_is_none() -> None:
    noisy, plain = window(rate=95.0, acceptance=0.95, noise=0.4), window(pool=None, rate=100.0, noise=0.4)
    assert Trouble.SLOWER not in troubles(noisy, plain)


def test_the_first_position_where_too_many_blocks_end_is_named() -> None:
    drafted = window(rate=100.0, acceptance=0.95, positions=2)
    for sample in list(drafted.samples):
        drafted.samples.remove(sample)
        came = sample.offered[0]
        drafted.add(replace(sample, offered=(came, came, came), accepted=(came, came - 1, came // 2)))
    (finding,) = [f for f in findings(drafted, PLAIN, LIMITS) if f.trouble is Trouble.TRUNCATION]
    assert finding.position == 2


def test_a_window_forgets_the_oldest() -> None:
    assert len(window(count=150)) == 100
