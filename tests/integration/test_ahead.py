"""Blocks drafted ahead, from end to end: every source, the real stream, a slow wire."""

from __future__ import annotations

import itertools

import pytest

from common.types import SamplingParams
from tests.integration.test_trees import GREEDY, TEXT_SOURCES, answers, draft_service, requests, source_of
from tests.support.always_ahead import AlwaysAhead
from verify_service import metrics

SEEDED = SamplingParams(seed=5)
HITS = ("full", "other")


def counted(*outcomes: str) -> float:
    found = {
        sample.labels["outcome"]: sample.value
        for family in metrics.AHEAD.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    }
    return sum(found.get(outcome, 0.0) for outcome in outcomes)


@pytest.mark.parametrize(
    "kind", ["noisy", "unrelated", "cascade", "merge", "best", "re-encoded", *TEXT_SOURCES]
)
@pytest.mark.parametrize("sampling", [GREEDY, SEEDED], ids=["greedy", "seeded"])
async def test_answers_drafted_ahead_are_those_of_the_target_alone(
    sampling: SamplingParams, kind: str
) -> None:
    plain = await answers(requests(sampling=sampling))
    async with draft_service(source_of(kind)) as address:
        for width, most in ((1, 1), (3, 4)):
            asked = requests(address, sampling=sampling, tree_width=width, block_size=4)
            drafted = await answers(asked, ahead=AlwaysAhead(most))
            assert [answer.token_ids for answer in drafted] == [answer.token_ids for answer in plain]


@pytest.mark.parametrize("width", [1, 3])
async def test_blocks_are_there_when_all_guesses_stood_and_when_some_did_not(width: int) -> None:
    before = counted("full"), counted("other")
    async with draft_service(source_of("noisy")) as address:
        for _ in range(40):
            asked = requests(address, sampling=GREEDY, tree_width=width, block_size=2)
            await answers(asked, ahead=AlwaysAhead(4))
            if counted("full") > before[0] and counted("other") > before[1]:
                return
    pytest.fail("no block that was drafted ahead was used")


async def test_a_perfect_draft_is_several_blocks_ahead() -> None:
    """The second block that was sent ahead is there when the first one is used."""
    source = source_of("noisy")
    async with draft_service(source) as address:
        asked = requests(address, sampling=GREEDY, block_size=1)
        plain = await answers(requests(sampling=GREEDY))
        for _ in range(20):
            drafted = await answers(asked, ahead=AlwaysAhead(8))
            assert [a.token_ids for a in drafted] == [a.token_ids for a in plain]
            if counted(*HITS) > 30:
                return
    pytest.fail("few blocks drafted ahead were used")


def test_every_outcome_has_a_series() -> None:
    assert set(itertools.chain(HITS, ("late", "missed"))) == set(metrics.AHEAD_OUTCOMES)
