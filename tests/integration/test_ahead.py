"""Blocks drafted ahead, from end to end: every source, the real stream, a slow wire."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from common.types import SamplingParams
from tests.integration.test_trees import GREEDY, KINDS, answers, draft_service, requests, source_of
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


@pytest.fixture(scope="module")
async def plain() -> dict[SamplingParams, list[tuple[int, ...]]]:
    return {sampling: await tokens(sampling) for sampling in (GREEDY, SEEDED)}


async def tokens(sampling: SamplingParams, *addresses: str, **options: Any) -> list[tuple[int, ...]]:
    ahead = options.pop("ahead", None)
    found = await answers(requests(*addresses, sampling=sampling, **options), ahead=ahead)
    return [tuple(answer.token_ids) for answer in found]


@pytest.mark.parametrize(("sampling", "width", "most"), [(GREEDY, 3, 4), (SEEDED, 1, 2)])
@pytest.mark.parametrize("kind", KINDS)
async def test_answers_drafted_ahead_are_those_of_the_target_alone(
    plain: dict[SamplingParams, list[tuple[int, ...]]],
    sampling: SamplingParams,
    kind: str,
    width: int,
    most: int,
) -> None:
    async with draft_service(source_of(kind)) as address:
        options = {"tree_width": width, "block_size": 4, "ahead": AlwaysAhead(most)}
        assert await tokens(sampling, address, **options) == plain[sampling]


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


async def test_with_blocks_of_one_guess_several_of_them_are_ahead(
    plain: dict[SamplingParams, list[tuple[int, ...]]],
) -> None:
    before = counted(*HITS)
    async with draft_service(source_of("noisy")) as address:
        for _ in range(20):
            assert await tokens(GREEDY, address, block_size=1, ahead=AlwaysAhead(8)) == plain[GREEDY]
            if counted(*HITS) > before + 30:
                return
    pytest.fail("few blocks drafted ahead were used")


def test_every_outcome_has_a_series() -> None:
    assert set(itertools.chain(HITS, ("late", "missed"))) == set(metrics.AHEAD_OUTCOMES)
