"""Cutting guesses for what they turned out to be must not show in the answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.draft_types import Block
from common.types import Mode, SamplingParams, ValidatorChoice
from tests.statistical import drafts
from tests.statistical.drafts import InProcessDraft, InProcessTreeDraft
from tests.statistical.engines import count_outcomes
from tests.statistical.reference import Target
from tests.statistical.test_distribution import chi_square
from tests.support.offered import offered
from tests.unit.verify.support import counting
from verify_service.drafts import hub
from verify_service.sequence import Sequence
from verify_service.validators.vetting import Vetting

SAMPLES = 2000
PARAMS = SamplingParams(temperature=0.6)
REVEALING = (ValidatorChoice("revealing"),)
PATIENT = 20.0
DRAFTS = {"chains": (InProcessDraft, 1), "trees": (InProcessTreeDraft, 3)}


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with offered(tmp_path, monkeypatch):
        yield


async def p_value(
    model: Any, target: Target, mode: Mode, draft: InProcessDraft, *, width: int, samples: int = SAMPLES
) -> float:
    """Of the answers, were they the target's own. All blocks are vetted, and some of them cut."""
    vetting = Vetting(PATIENT, PATIENT)
    labels = {"validator": "revealing"}
    with (
        counting("tandem_validator_outcomes_total", outcome="cut", **labels) as cut,
        counting("tandem_validator_outcomes_total", outcome="late", **labels) as late,
    ):
        counts, _ = await count_outcomes(
            model,
            target,
            PARAMS,
            mode,
            draft=draft,
            samples=samples,
            tree_width=width,
            vetting=vetting,
            validators=REVEALING,
        )
    await vetting.close()
    assert cut.by > samples / 4, "little was cut; that tests nothing"
    assert late.by < cut.by / 10
    return chi_square(counts, target.outcomes(PARAMS))


@pytest.mark.parametrize("one_hot", [False, True], ids=["with q", "one-hot"])
@pytest.mark.parametrize("shape", DRAFTS)
@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.value)
async def test_a_validator_that_looks_at_the_drawn_token_leaves_the_distribution_as_it_is(
    model: Any, target: Target, mode: Mode, shape: str, one_hot: bool
) -> None:
    make, width = DRAFTS[shape]
    draft = make(target, drafts.good, one_hot=one_hot)
    assert await p_value(model, target, mode, draft, width=width) > 0.001


async def test_the_chi_square_notices_sampled_guesses_that_keep_their_q(
    model: Any, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keeping(block: Block, sequence: Sequence) -> Block:
        return block

    monkeypatch.setattr(hub, "honest", keeping)
    draft = InProcessDraft(target, drafts.good)
    assert await p_value(model, target, Mode.REJECTION, draft, width=1, samples=2 * SAMPLES) < 1e-6
