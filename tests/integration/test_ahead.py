"""Blocks drafted ahead, from end to end: every source, and the real stream."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from common.types import SamplingParams
from tests.integration.test_trees import GREEDY, KINDS, answers, draft_service, requests, source_of
from tests.support.always_ahead import AlwaysAhead
from tests.unit.verify.support import counting
from verify_service import metrics
from verify_service.drafts.limits import Limits

SAMPLINGS = {"greedy": GREEDY, "seeded": SamplingParams(seed=5)}
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
def plain() -> dict[str, list[tuple[int, ...]]]:
    return {name: asyncio.run(tokens(sampling)) for name, sampling in SAMPLINGS.items()}


async def tokens(sampling: SamplingParams, *addresses: str, **options: Any) -> list[tuple[int, ...]]:
    ahead = options.pop("ahead", None)
    asked = requests(*addresses, sampling=sampling, **options)
    found = await answers(asked, ahead=ahead, limits=Limits(min_confidence=0.25))
    return [tuple(answer.token_ids) for answer in found]


@pytest.mark.parametrize(("sampling", "width", "most"), [("greedy", 3, 4), ("seeded", 1, 2)])
@pytest.mark.parametrize("kind", KINDS)
async def test_answers_drafted_ahead_are_those_of_the_target_alone(
    plain: dict[str, list[tuple[int, ...]]],
    sampling: str,
    kind: str,
    width: int,
    most: int,
) -> None:
    async with draft_service(source_of(kind)) as address:
        options = {"tree_width": width, "block_size": 4, "ahead": AlwaysAhead(most)}
        with counting("tandem_draft_sessions_refused_total", code="out_of_sync") as refused:
            assert await tokens(SAMPLINGS[sampling], address, **options) == plain[sampling]
    assert refused.by == 0


async def test_blocks_are_there_before_they_are_asked_for(
    plain: dict[str, list[tuple[int, ...]]],
) -> None:
    """The target is so small that its pass leaves a draft little time, so it may take a few answers."""
    before = counted(*HITS)
    async with draft_service(source_of("noisy")) as address:
        for _ in range(40):
            assert await tokens(GREEDY, address, block_size=1, ahead=AlwaysAhead(8)) == plain["greedy"]
            if counted(*HITS) > before + 5:
                return
    pytest.fail("hardly a block drafted ahead was used")


def test_every_outcome_has_a_series() -> None:
    assert set(itertools.chain(HITS, ("late", "missed"))) == set(metrics.AHEAD_OUTCOMES)
