"""Answers whose blocks were drafted ahead have exactly the target's distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from common.types import Mode, SamplingParams
from draft_service.session import Session
from draft_service.sources.base import Guess
from draft_service.sources.growing import Growth
from tests.statistical.drafts import LONGEST_CONTEXT, Proposal, adversarial, bad, good
from tests.statistical.engines import count_outcomes
from tests.statistical.reference import Target
from tests.statistical.test_distribution import PROMPT, chi_square
from tests.support.always_ahead import AlwaysAhead
from tests.support.models import tiny_model
from tests.support.source_link import SourceLink
from verify_service import metrics

SAMPLING = SamplingParams(temperature=1.2, top_k=6)  # so that guesses often fall and answers take steps
SAMPLES = 600
PROPOSALS: dict[str, Proposal] = {"good": good, "bad": bad, "adversarial": adversarial}


class ProposalSource:
    """Grows trees and chains as a model does that says what the proposal makes of the target."""

    name = "proposal"
    model_version = "1"

    def __init__(self, target: Target, proposal: Proposal) -> None:
        self._target = target
        self._proposal = proposal

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        return [self._grown(session) for session in sessions]

    def close(self, session_id: str) -> None:
        return

    def _grown(self, session: Session) -> Guess:
        growth = Growth(session)
        growth.plant(self._said(session, ()))
        while not growth.finished:
            growth.grow(torch.stack([self._said(session, path) for path in growth.paths]))
        return growth.guess()

    def _said(self, session: Session, path: tuple[int, ...]) -> Tensor:
        context = (*session.tokens[session.prompt_length :], *path)
        p = self._target.distribution(context[:LONGEST_CONTEXT], SAMPLING)
        return torch.from_numpy(self._proposal(p, len(session.tokens) + len(path))).log()


def used() -> float:
    return float(sum(metrics.AHEAD.labels(outcome)._value.get() for outcome in ("full", "other")))


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_model(seed=3)


@pytest.mark.parametrize(
    ("mode", "kind", "width"),
    [
        (Mode.REJECTION, "good", 1),
        (Mode.REJECTION, "good", 3),
        (Mode.REJECTION, "bad", 3),
        (Mode.REJECTION, "adversarial", 1),
        (Mode.KEYED, "good", 1),
    ],
)
async def test_blocks_drafted_ahead_leave_the_distribution_as_it_is(
    model: Any, mode: Mode, kind: str, width: int
) -> None:
    target, before = Target(model, PROMPT), used()
    counts, acceptance = await count_outcomes(
        model,
        target,
        SAMPLING,
        mode,
        draft=SourceLink(ProposalSource(target, PROPOSALS[kind])),
        samples=SAMPLES,
        tree_width=width,
        ahead=AlwaysAhead(5),
    )
    p_value = chi_square(counts, target.outcomes(SAMPLING))
    assert p_value > 0.001, f"p = {p_value:.2g} at an acceptance rate of {acceptance:.2f}"
    if kind == "good":
        assert used() - before > SAMPLES / 20, "hardly a block was drafted ahead; that tests nothing"
