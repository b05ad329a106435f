"""Leaving out unsure guesses, and choosing how many there are, must not show in the answers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from common import sampling, trees
from common.draft_types import Block, Open
from common.types import Mode, SamplingParams
from tests.statistical import drafts
from tests.statistical.drafts import InProcessDraft, InProcessTreeDraft
from tests.statistical.engines import count_outcomes
from tests.statistical.reference import Target
from tests.statistical.test_distribution import chi_square
from tests.unit.verify.support import counting
from verify_service.drafts import confidence
from verify_service.drafts.control.throughput import Throughput
from verify_service.drafts.control.window import Window
from verify_service.drafts.limits import Limits

SAMPLES = 2000
PARAMS = SamplingParams(temperature=0.6)
LEAST = 0.6
SURE, UNSURE = 0.9, 0.1


def revealing(block: Block) -> Block:
    """Confidences that depend on what was drawn: every other token is said to be unsure."""
    return replace(block, confidences=tuple(UNSURE if token % 2 else SURE for token in block.token_ids))


class RevealingDraft(InProcessDraft):
    def _block(self, session: Open, tokens: Sequence[int], size: int) -> Block:
        return revealing(super()._block(session, tokens, size))


class RevealingTreeDraft(InProcessTreeDraft):
    def _block(self, session: Open, tokens: Sequence[int], size: int) -> Block:
        return revealing(super()._block(session, tokens, size))


DRAFTS = {"chains": (RevealingDraft, 1), "trees": (RevealingTreeDraft, 3)}


@pytest.mark.parametrize("one_hot", [False, True], ids=["with q", "one-hot"])
@pytest.mark.parametrize("shape", DRAFTS)
@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.value)
async def test_confidences_that_depend_on_the_drawn_token_leave_the_distribution_as_it_is(
    model: Any, target: Target, mode: Mode, shape: str, one_hot: bool
) -> None:
    make, width = DRAFTS[shape]
    draft = make(target, drafts.good, one_hot=one_hot)
    with counting("tandem_draft_unsure_tokens_total") as unsure:
        counts, _ = await count_outcomes(
            model,
            target,
            PARAMS,
            mode,
            draft=draft,
            samples=SAMPLES,
            tree_width=width,
            limits=Limits(min_confidence=LEAST),
        )
    assert unsure.by > 0, "nothing was left out; that tests nothing"
    assert chi_square(counts, target.outcomes(PARAMS)) > 0.001


async def test_the_chi_square_notices_sampled_guesses_left_out_for_what_they_turned_out_to_be(
    model: Any, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were declared confidences believed under rejection sampling."""
    monkeypatch.setattr(confidence, "_before_the_draw", lambda block: block.confidences)
    counts, _ = await count_outcomes(
        model,
        target,
        PARAMS,
        Mode.REJECTION,
        draft=RevealingDraft(target, drafts.good),
        samples=2 * SAMPLES,
        limits=Limits(min_confidence=LEAST),
    )
    assert chi_square(counts, target.outcomes(PARAMS)) < 1e-6


@pytest.mark.parametrize("kind", ["good", "bad"])
@pytest.mark.parametrize("policy", [Throughput, Window])
async def test_block_sizes_that_are_chosen_on_the_way_leave_the_distribution_as_it_is(
    model: Any, target: Target, policy: type[Throughput] | type[Window], kind: str
) -> None:
    draft = InProcessDraft(target, getattr(drafts, kind))
    counts, _ = await count_outcomes(
        model, target, PARAMS, Mode.REJECTION, draft=draft, samples=SAMPLES, policy=policy()
    )
    assert chi_square(counts, target.outcomes(PARAMS)) > 0.001


def test_what_is_kept_does_not_depend_on_the_last_guess_of_any_path(target: Target) -> None:
    """Guesses with a q are kept or not whatever they are: exchange one, and the same nodes stay."""
    q = sampling.draft_distribution(torch.from_numpy(target.distribution((), PARAMS)))
    parents = (-1, -1, 0, 0, 1)
    for tokens in itertools.islice(itertools.product(q.token_ids, repeat=len(parents)), 0, 5000, 97):
        block = Block(1, 5, tokens, parents=parents, distributions=(q,) * len(parents))
        kept = confidence.sure_enough(revealing(block), LEAST, drawn=True)
        assert kept == confidence.sure_enough(replace(block, token_ids=q.token_ids[:5]), LEAST, drawn=True)
        assert all(trees.path(parents, node)[:-1] in {(), *((n,) for n in kept)} for node in kept)
