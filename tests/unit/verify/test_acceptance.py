"""Which guesses stand, from target rows made by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from common import noise, sampling
from common.draft_types import Block, SparseDistribution
from common.types import Mode, SamplingParams
from verify_service.acceptance import (
    ACCEPTANCE,
    Acceptance,
    TargetRows,
    Verdict,
    accept_keyed,
    accept_rejection,
)

GREEDY = SamplingParams(temperature=0)
WARM = SamplingParams(temperature=1)
COMMITTED = [1, 2, 3]
VOCABULARY = 6
BOTH = pytest.mark.parametrize("accept", [accept_keyed, accept_rejection])
LOGITS = st.lists(
    st.lists(st.floats(-4, 4), min_size=VOCABULARY, max_size=VOCABULARY), min_size=1, max_size=6
)


def rows(
    logits: Tensor, guesses: Sequence[int], params: SamplingParams = WARM, prompt_length: int = 2
) -> TargetRows:
    return TargetRows(logits, params, COMMITTED, prompt_length, chain(guesses))


def says(*tokens: int) -> Tensor:
    """Row i is all but certain of tokens[i]."""
    return torch.nn.functional.one_hot(torch.tensor(tokens), VOCABULARY).float() * 50


def chain(token_ids: Sequence[int], distributions: Sequence[SparseDistribution] = ()) -> Block:
    return Block(1, len(COMMITTED), tuple(token_ids), distributions=tuple(distributions))


def stands(accepted: int, token: int) -> Verdict:
    """The first ``accepted`` guesses of a chain."""
    return Verdict(tuple(range(accepted)), token)


def test_each_mode_has_its_function() -> None:
    assert {Mode.KEYED: accept_keyed, Mode.REJECTION: accept_rejection} == ACCEPTANCE


@BOTH
@pytest.mark.parametrize("params", [GREEDY, WARM])
@pytest.mark.parametrize(
    ("guesses", "verdict"),
    [
        ((), stands(0, 4)),
        ((4,), stands(1, 2)),
        ((5,), stands(0, 4)),
        ((4, 2, 0), stands(3, 5)),
        ((4, 2, 1), stands(2, 0)),
        ((4, 0, 0), stands(1, 2)),
        ((0, 2, 0), stands(0, 4)),
    ],
)
def test_the_guesses_up_to_the_first_wrong_one_stand(
    accept: Acceptance, params: SamplingParams, guesses: tuple[int, ...], verdict: Verdict
) -> None:
    logits = says(4, 2, 0, 5)[: len(guesses) + 1]
    assert accept(rows(logits, guesses, params), chain(guesses), 17) == verdict


@given(LOGITS, st.lists(st.integers(0, VOCABULARY - 1), min_size=5, max_size=5), st.integers(0, 2**64 - 1))
def test_greedy_is_the_argmax_in_both_modes_whatever_the_draft_and_the_seed(
    logits: list[list[float]], guesses: list[int], seed: int
) -> None:
    target = torch.tensor(logits)
    guesses = guesses[: len(logits) - 1]
    best = target.argmax(-1).tolist()
    accepted = 0
    while accepted < len(guesses) and guesses[accepted] == best[accepted]:
        accepted += 1
    q = [sampling.draft_distribution(torch.softmax(target[i].double(), -1)) for i in range(len(guesses))]
    for verdict in (
        accept_keyed(rows(target, guesses, GREEDY), chain(guesses), seed),
        accept_rejection(rows(target, guesses, GREEDY), chain(guesses), seed),
        accept_rejection(rows(target, guesses, GREEDY), chain(guesses, q), seed),
    ):
        assert verdict == stands(accepted, best[accepted])


@given(LOGITS, st.lists(st.integers(0, VOCABULARY - 1), min_size=5, max_size=5), st.integers(0, 2**64 - 1))
def test_keyed_delivers_the_targets_own_choices_whatever_was_guessed(
    logits: list[list[float]], guesses: list[int], seed: int
) -> None:
    target = torch.tensor(logits)
    own = [
        sampling.choose(torch.softmax(row.double(), -1), seed, len(COMMITTED) + index)
        for index, row in enumerate(target)
    ]
    guesses = guesses[: len(logits) - 1]
    verdict = accept_keyed(rows(target, guesses), chain(guesses), seed)
    assert [*guesses[: verdict.accepted], verdict.token] == own[: verdict.accepted + 1]


@given(st.integers(0, 2**64 - 1), st.integers(0, VOCABULARY - 1))
def test_a_one_hot_guess_is_taken_with_the_targets_probability(seed: int, guess: int) -> None:
    logits = torch.tensor([[0.0, 1.0, -1.0, 2.0, 0.5, 0.0]] * 2)
    p = torch.softmax(logits[0].double(), -1)
    verdict = accept_rejection(rows(logits, [guess]), chain([guess]), seed)
    taken = noise.accept_uniform(seed, len(COMMITTED)) < float(p[guess])
    assert verdict.accepted == taken
    if not taken:
        assert verdict.token != guess, "what was refused cannot come back from the residual"


@given(st.integers(0, 2**64 - 1))
def test_a_guess_the_target_likes_at_least_as_much_as_the_draft_is_always_taken(seed: int) -> None:
    logits = torch.tensor([[3.0, 0.0, 0.0, 0.0, 0.0, 0.0]] * 2)
    q = SparseDistribution((0, 1), (0.25, 0.75))
    assert accept_rejection(rows(logits, [0]), chain([0], [q]), seed).accepted == 1


@given(st.integers(0, 2**64 - 1))
def test_a_refused_guess_is_replaced_from_where_the_target_exceeds_the_draft(seed: int) -> None:
    logits = torch.tensor([[math.log(0.1), math.log(0.6), math.log(0.3)]] * 2)
    q = SparseDistribution((0, 1), (0.5, 0.5))
    verdict = accept_rejection(rows(logits, [0]), chain([0], [q]), seed)
    if not verdict.accepted:
        assert verdict.token in {1, 2}


@given(st.integers(0, 2**64 - 1))
def test_a_draft_equal_to_the_target_is_always_taken(seed: int) -> None:
    logits = torch.tensor([[math.log(p) for p in (0.5, 0.25, 0.125, 0.125)]] * 3)
    q = SparseDistribution((0, 1, 2, 3), (0.5, 0.25, 0.125, 0.125))
    guesses = [sampling.choose_sparse(q, noise.draft_seed(seed), 3 + index) for index in range(2)]
    assert accept_rejection(rows(logits, guesses), chain(guesses, [q, q]), seed).accepted == 2


@given(st.integers(0, 2**64 - 1))
def test_a_guess_outside_top_k_is_never_taken(seed: int) -> None:
    logits = torch.tensor([[3.0, 2.0, 1.0, 0.0, -1.0, -2.0]] * 2)
    params = SamplingParams(top_k=2)
    for accept in (accept_keyed, accept_rejection):
        verdict = accept(rows(logits, [2], params), chain([2]), seed)
        assert verdict.accepted == 0
        assert verdict.token in {0, 1}


@BOTH
def test_penalties_inside_a_block_see_the_guesses_before_them(accept: Acceptance) -> None:
    # Token 4 leads by 1; once seen, a presence penalty of 2 puts token 5 ahead.
    logits = torch.tensor([[0.0, 0, 0, 0, 3, 2]] * 4)
    params = SamplingParams(temperature=0, presence_penalty=2)
    assert accept(rows(logits, [4, 4, 4], params), chain([4, 4, 4]), 1) == stands(1, 5)
    assert accept(rows(logits, [4, 5, 4], params), chain([4, 5, 4]), 1) == stands(3, 4)


def test_frequency_counts_every_occurrence_in_output_and_guesses_and_not_the_prompt() -> None:
    # Committed: prompt 1, 2; output 3. Each occurrence costs 1.
    logits = torch.tensor([[0.0, 2.5, 0, 3, 0, 0]] * 4)
    params = SamplingParams(temperature=0, frequency_penalty=1)
    target = rows(logits, [1, 3, 1], params)
    assert [target.choice(row, 1) for row in range(4)] == [1, 3, 1, 3]


@BOTH
def test_logit_bias_holds_at_every_position_of_a_block(accept: Acceptance) -> None:
    params = SamplingParams(temperature=0, logit_bias={2: 100.0, 5: -100.0})
    assert accept(rows(says(5, 5, 5), [2, 2], params), chain([2, 2]), 1) == stands(2, 2)


@given(
    st.integers(0, 2**64 - 1), st.sampled_from([GREEDY, WARM, SamplingParams(top_p=0.5, presence_penalty=1)])
)
def test_a_row_depends_on_the_guesses_before_it_only(seed: int, params: SamplingParams) -> None:
    logits = torch.randn(4, VOCABULARY, generator=torch.Generator().manual_seed(seed % 2**32))
    whole = rows(logits, [0, 1, 2], params)
    for row in range(4):
        alone = rows(logits[: row + 1], [0, 1, 2][:row], params)
        assert torch.equal(whole.probabilities(row), alone.probabilities(row))
        assert whole.choice(row, seed) == alone.choice(row, seed)


def test_judging_leaves_the_logits_as_they_were() -> None:
    logits = says(1, 2)
    before = logits.clone()
    params = SamplingParams(logit_bias={3: 5.0}, repetition_penalty=2, presence_penalty=1)
    accept_rejection(rows(logits, [1], params), chain([1]), 3)
    assert torch.equal(logits, before)
