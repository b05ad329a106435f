"""Several heads on one hidden state."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from common.types import Mode
from draft_service.sources.base import Guess
from draft_service.sources.medusa import MedusaSource
from tests.support.heads import tiny_head, tiny_parts, tiny_running, tiny_shape
from tests.support.models import tiny_model
from tests.unit.draft.sessions import opened
from tests.unit.draft.test_eagle import TEXT, WARM, session_of, states_of

SHAPE = tiny_shape("medusa", (2,), depth=3)


@pytest.fixture(scope="module")
def target() -> Any:
    return tiny_model(6, attention="sdpa")


@pytest.fixture
def source(target: Any) -> MedusaSource:
    return MedusaSource(tiny_running(target, SHAPE))


def said(target: Any, tokens: list[int]) -> torch.Tensor:
    """[depth, vocabulary], of the heads themselves."""
    head, parts = tiny_head(SHAPE), tiny_parts(target)
    head.norm.copy_(parts.norm)
    states = states_of(target, tokens, (2,))[-2:-1].float()
    return head(parts.embedding[tokens[-1:]], states)[:, 0] @ parts.head.T  # type: ignore[no-any-return]


def test_a_greedy_chain_is_each_heads_likeliest_token_and_no_longer_than_there_are_heads(
    target: Any, source: MedusaSource
) -> None:
    expected = said(target, TEXT).argmax(-1).tolist()
    for size, made in ((2, expected[:2]), (3, expected), (8, expected)):
        (guess,) = source.propose([session_of(target, TEXT, layers=(2,), block_size=size)])
        assert guess is not None
        assert list(guess.token_ids) == made


def test_a_tree_holds_the_likeliest_tokens_of_each_head(target: Any, source: MedusaSource) -> None:
    best = said(target, TEXT).topk(3).indices.tolist()
    (guess,) = source.propose([session_of(target, TEXT, layers=(2,), block_size=40, tree_width=3)])
    assert guess is not None
    assert len(guess.token_ids) == 3 + 9 + 27
    depth: list[int] = []
    for token, parent in zip(guess.token_ids, guess.parents, strict=True):
        depth.append(0 if parent < 0 else depth[parent] + 1)
        assert token in best[depth[-1]]


def test_under_rejection_every_guess_declares_what_it_was_drawn_from(
    target: Any, source: MedusaSource
) -> None:
    options: dict[str, Any] = {"mode": Mode.REJECTION, "sampling": WARM, "block_size": 3}
    (guess,) = source.propose([session_of(target, TEXT, layers=(2,), **options)])
    assert guess is not None
    assert len(guess.distributions) == len(guess.token_ids) == 3


def test_without_the_latest_state_nothing_is_guessed(target: Any, source: MedusaSource) -> None:
    late = session_of(target, TEXT[:5], layers=(2,))
    late.tokens += [4]
    assert source.propose([late, opened(tokens=TEXT)]) == [Guess(), Guess()]
