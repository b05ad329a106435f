"""Answers whose blocks were drafted ahead have exactly the target's distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from common.types import Mode
from draft_service.session import Session
from draft_service.sources.base import Guess
from draft_service.sources.growing import Growth
from tests.statistical.markov import p_value, transitions, walked
from tests.support.always_ahead import AlwaysAhead
from tests.support.source_link import SourceLink
from verify_service import metrics

LAWS: dict[str, Callable[[Tensor], Tensor]] = {
    "good": lambda logits: 0.8 * logits,
    "bad": lambda logits: logits.roll(1, -1),
    "adversarial": lambda logits: -logits,
}


class LawSource:
    """Grows chains and trees as a model does that says after a token what the law makes of the target."""

    name = "law"
    model_version = "1"

    def __init__(self, law: str) -> None:
        self._said = LAWS[law](transitions()[:, 1:])

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        return [self._grown(session) for session in sessions]

    def close(self, session_id: str) -> None:
        return

    def _grown(self, session: Session) -> Guess:
        growth = Growth(session)
        growth.plant(self._after(session.tokens[-1]))
        while not growth.finished:
            growth.ask(lambda path: self._after(path[-1]))
        return growth.guess()

    def _after(self, token_id: int) -> Tensor:
        return torch.cat((torch.tensor([-100.0]), self._said[token_id]))


def used() -> dict[str, float]:
    return {outcome: metrics.AHEAD.labels(outcome)._value.get() for outcome in ("full", "other")}


@pytest.mark.parametrize(
    ("mode", "law", "width"),
    [
        (Mode.REJECTION, "good", 1),
        (Mode.REJECTION, "good", 3),
        (Mode.REJECTION, "bad", 3),
        (Mode.REJECTION, "adversarial", 1),
        (Mode.KEYED, "good", 3),
    ],
)
async def test_each_token_of_a_long_answer_has_the_targets_distribution(
    mode: Mode, law: str, width: int
) -> None:
    link, before = SourceLink(LawSource(law)), used()
    counts, accepted = await walked(
        mode, width, "here", answers=12, make_link=lambda _: link, ahead=AlwaysAhead(4), block_size=3
    )
    p = p_value(counts)
    assert p > 0.001, f"p = {p:.2g} with {accepted:.2f} guesses accepted a pass"
    if law == "good":
        assert accepted > 0.3, "hardly a guess is accepted; that tests nothing"
        assert all(used()[outcome] - before[outcome] > 9 for outcome in before), "hardly a block was used"
