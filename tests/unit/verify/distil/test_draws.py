"""Which answers are sampled, and what is noted of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from common.samples import LIKELIEST, LONGEST
from common.types import GenerateRequest, SamplingParams
from verify_service.distil.draws import Draws, Likeliest, Sampling, greedy, likeliest_of

PLAIN = GenerateRequest("r", [1, 2, 3])
SALTED = replace(PLAIN, cache_salt="tenant")
ALWAYS = Sampling(1.0)


def test_nothing_is_sampled_unless_it_is_asked_for() -> None:
    assert not any(Sampling().wants(PLAIN, None, 3) for _ in range(1000))


def test_the_share_of_answers_that_is_asked_for_is_sampled() -> None:
    quarter = Sampling(0.25)
    assert quarter.wants(PLAIN, None, 3, lambda: 0.2499)
    assert not quarter.wants(PLAIN, None, 3, lambda: 0.25)


def test_a_tenants_answers_are_not_sampled_unless_that_is_asked_for_too() -> None:
    assert not ALWAYS.wants(SALTED, None, 3)
    assert Sampling(1.0, salted=True).wants(SALTED, None, 3)


def test_answers_that_may_have_strayed_and_prompts_that_would_be_cut_are_left_out() -> None:
    policy: Any = object()
    assert not ALWAYS.wants(PLAIN, policy, 3)
    assert not ALWAYS.wants(PLAIN, None, LONGEST)
    assert ALWAYS.wants(PLAIN, None, LONGEST - 1)


def test_the_likeliest_tokens_have_the_probabilities_of_the_whole_vocabulary() -> None:
    logits = torch.randn(3, 200, generator=torch.Generator().manual_seed(1)) * 3
    found = likeliest_of(logits)
    expected = logits.softmax(-1).topk(LIKELIEST)
    assert np.array_equal(found.token_ids, expected.indices.numpy())
    assert np.allclose(found.probabilities, expected.values, rtol=1e-3)
    assert found.token_ids.dtype == np.dtype(np.uint32)
    assert found.probabilities.dtype == np.dtype(np.float16)


def rows(first: int, count: int) -> Likeliest:
    ids = np.repeat(np.arange(first, first + count, dtype=np.uint32)[:, None], LIKELIEST, 1)
    return Likeliest(ids, ids.astype(np.float16))


def test_what_was_decided_and_not_delivered_is_not_noted_nor_what_is_too_much() -> None:
    draws = Draws(LONGEST - 5)
    assert draws.whole is None
    draws.add(rows(0, 3), 2)
    draws.add(rows(10, 9), 9)
    draws.add(rows(30, 1), 1)
    whole = draws.whole
    assert whole is not None
    assert whole.token_ids[:, 0].tolist() == [0, 1, 10, 11, 12]


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (SamplingParams(temperature=0), True),
        (SamplingParams(), False),
        (SamplingParams(temperature=0, repetition_penalty=1.1), False),
        (SamplingParams(temperature=0, logit_bias={3: 1.0}), False),
    ],
)
def test_an_answer_is_greedy_when_nothing_but_the_target_chose_it(
    sampling: SamplingParams, expected: bool
) -> None:
    assert greedy(replace(PLAIN, sampling=sampling), constrained=False) is expected
    assert not greedy(replace(PLAIN, sampling=sampling), constrained=True)
