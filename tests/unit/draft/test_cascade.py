"""A middle model lets a cheap source's guesses pass, mends them and goes on."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from common import sampling
from common.allowed import Allowed
from common.types import Mode, SamplingParams
from draft_service.session import Session
from draft_service.sources.base import NOTHING, Guess
from draft_service.sources.cascade import CascadeSource
from draft_service.sources.engines import DraftModel
from tests.unit.draft.paged import PagedRunner, logits_after
from tests.unit.draft.sessions import commitment, opened
from tests.unit.draft.test_pool import Scripted

NUM_BLOCKS = 32
WARM = SamplingParams(temperature=0.8, top_p=0.9)


def cascade(
    *guesses: Guess | None, threshold: float = 0.1, prefill_tokens: int = 64, num_blocks: int = NUM_BLOCKS
) -> tuple[CascadeSource, PagedRunner]:
    runner = PagedRunner(num_blocks)
    tiny = Scripted("ngram", *guesses)
    return CascadeSource(tiny, DraftModel(runner, num_blocks, "v"), prefill_tokens, threshold), runner


def guess(source: CascadeSource, session: Session) -> Guess:
    (made,) = source.propose([session])
    assert made is not None
    return made


def own(tokens: list[int], count: int) -> list[int]:
    """The middle model's greedy continuation."""
    grown = list(tokens)
    for _ in range(count):
        grown.append(int(logits_after(grown).argmax()))
    return grown[len(tokens) :]


def belief(tokens: list[int], token_id: int) -> float:
    return float(logits_after(tokens).softmax(-1)[token_id])


def passing(tokens: list[int]) -> int:
    """Not the model's favourite, yet believed in by a tenth."""
    probs = logits_after(tokens).softmax(-1)
    second = int(probs.topk(2).indices[1])
    assert probs[second] >= 0.1
    return second


START = next(
    [1, 2, n] for n in range(100) if float(logits_after([1, 2, n]).softmax(-1).topk(2).values[1]) >= 0.1
)


def test_guesses_that_are_the_models_own_pass_in_one_pass() -> None:
    right = own(START, 4)
    source, runner = cascade(Guess(tuple(right)))
    assert list(guess(source, opened(tokens=START)).token_ids) == right
    assert runner.ran == [[3 + 4]]


def test_a_guess_believed_in_enough_stands_though_the_model_would_have_said_otherwise() -> None:
    token_id = passing(START)
    source, _ = cascade(Guess((token_id,)))
    made = guess(source, opened(tokens=START, block_size=1))
    assert made.token_ids == (token_id,)
    assert made.confidences == pytest.approx((belief(START, token_id),))
    strict, _ = cascade(Guess((token_id,)), threshold=1.0)
    assert list(guess(strict, opened(tokens=START, block_size=1)).token_ids) == own(START, 1)


def test_a_guess_that_fails_is_replaced_and_the_rest_is_tried_after_it() -> None:
    right = own(START, 5)
    mended = (right[0], (right[1] + 1) % 100, *right[2:])
    source, runner = cascade(Guess(mended), threshold=0.99)
    assert list(guess(source, opened(tokens=START, block_size=5)).token_ids) == right
    assert runner.ran == [[3 + 5], [1 + 3]]


def test_what_the_cheap_source_does_not_guess_the_model_adds_token_by_token() -> None:
    for cheap in (NOTHING, None):
        source, runner = cascade(cheap)
        assert list(guess(source, opened(tokens=START)).token_ids) == own(START, 4)
        assert runner.ran == [[3], [1], [1], [1]]


def test_of_a_tree_the_first_branch_is_tried() -> None:
    right = own(START, 2)
    tree = Guess((right[0], 50, right[1]), parents=(-1, -1, 0))
    source, runner = cascade(tree)
    assert list(guess(source, opened(tokens=START, block_size=2, tree_width=3)).token_ids) == right
    assert runner.ran == [[3 + 2]]


def test_sessions_share_passes() -> None:
    source, runner = cascade(NOTHING)
    source.propose([opened("a", [1, 2], block_size=1), opened("b", [4], block_size=2), opened("c", [5])])
    assert runner.ran == [[2, 1, 1], [1, 1], [1], [1]]


@pytest.mark.parametrize("mode", Mode)
def test_the_block_is_declared_certain_and_mended_with_the_likeliest_choice(mode: Mode) -> None:
    source, _ = cascade(NOTHING)
    session = opened(tokens=START, sampling=WARM, mode=mode, noise_seed=5, block_size=1)
    probs = sampling.probabilities(logits_after(START)[None].double(), WARM)[0]
    made = guess(source, session)
    choice = sampling.choose(probs, 5, 3) if mode is Mode.KEYED else int(probs.argmax())
    assert (made.token_ids, made.distributions) == ((choice,), ())


def test_what_is_forbidden_does_not_pass() -> None:
    forbidden = own(START, 1)[0]
    source, _ = cascade(Guess((forbidden,) * 4))
    session = opened(tokens=START)
    session.allowed = Allowed(100, {forbidden: 10})
    assert forbidden not in guess(source, session).token_ids


def test_a_long_prompt_is_taken_in_chunks() -> None:
    tokens = list(range(40))
    source, runner = cascade(NOTHING, prefill_tokens=16)
    session = opened(tokens=tokens, block_size=2)
    assert [source.propose([session])[0] for _ in range(2)] == [None, None]
    assert list(guess(source, session).token_ids) == own(tokens, 2)
    assert runner.ran == [[16], [16], [8], [1]]


def test_without_room_there_are_no_guesses_and_closing_makes_room() -> None:
    source, _ = cascade(NOTHING, num_blocks=1)
    a, b = opened("a", range(8)), opened("b", range(5))
    assert source.propose([a, b])[1] == NOTHING
    source.close("a")
    assert list(guess(source, b).token_ids) == own(list(range(5)), 4)


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=30),
    st.lists(st.lists(st.integers(0, 99), max_size=5), min_size=4, max_size=4),
    st.lists(st.integers(0, 4), min_size=3, max_size=3),
    st.sampled_from([0.0, 0.05, 1.0]),
)
def test_after_any_acceptance_the_block_is_that_of_a_fresh_session(
    prompt: list[int], cheap: list[list[int]], accepted: list[int], threshold: float
) -> None:
    guesses = [Guess(tuple(tokens)) for tokens in cheap]
    source, _ = cascade(*guesses, threshold=threshold)
    session = opened(tokens=prompt)
    for count in accepted:
        session.remember(1, guess(source, session).token_ids)
        base = len(session.tokens)
        session.commit(commitment(base_length=base, block_id=1, accepted=count, tokens=[9]))
    fresh, _ = cascade(guesses[-1], threshold=threshold)
    made = guess(source, session)
    assert made == guess(fresh, opened("fresh", session.tokens))
    grown = list(session.tokens)
    for token_id in made.token_ids:
        probs = logits_after(grown).softmax(-1)
        assert float(probs[token_id]) >= threshold - 1e-6 or token_id == int(torch.argmax(probs))
        grown.append(token_id)
