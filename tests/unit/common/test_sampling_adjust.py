"""Penalties and bias, row by row of a block, against a slow reference."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from common import sampling
from common.types import SamplingParams
from tests.unit.common import sampling_reference as reference

VOCABULARY = 8

token_ids = st.lists(st.integers(0, VOCABULARY - 1), max_size=8)
logits = st.lists(st.floats(-20, 20, width=32), min_size=VOCABULARY, max_size=VOCABULARY)
params = st.builds(
    SamplingParams,
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.5, 10.0]),
    frequency_penalty=st.sampled_from([0.0, 0.7, -2.0]),
    presence_penalty=st.sampled_from([0.0, 1.1, -0.4]),
    logit_bias=st.dictionaries(st.integers(0, VOCABULARY - 1), st.floats(-100, 100), max_size=3),
)
RISING = torch.arange(-3.0, 5.0)


def adjusted(
    params: SamplingParams,
    prompt: list[int],
    output: list[int],
    path: list[int],
    logits: torch.Tensor = RISING,
) -> list[float]:
    row = sampling.adjust(logits[None], params, [*prompt, *output], len(prompt), [path])[0]
    return [float(value) for value in row]


def with_penalty(name: str, value: float) -> SamplingParams:
    changed: Any = {name: value}
    return SamplingParams(**changed)


@given(logits, params, token_ids, token_ids, token_ids)
def test_a_row_is_adjusted_as_the_reference_says(
    row: list[float], params: SamplingParams, prompt: list[int], output: list[int], path: list[int]
) -> None:
    actual = adjusted(params, prompt, output, path, torch.tensor(row))
    assert actual == pytest.approx(reference.adjust(row, params, prompt, output + path), abs=1e-5)


@given(params, token_ids, token_ids, token_ids)
def test_each_row_of_a_block_counts_the_guesses_before_it(
    params: SamplingParams, prompt: list[int], output: list[int], block: list[int]
) -> None:
    paths = [block[:length] for length in range(len(block) + 1)]
    rows = sampling.adjust(RISING.repeat(len(paths), 1), params, [*prompt, *output], len(prompt), paths)
    for row, path in zip(rows, paths, strict=True):
        assert row.tolist() == pytest.approx(adjusted(params, prompt, output, path))


def test_without_penalties_and_bias_the_logits_stay() -> None:
    assert adjusted(SamplingParams(), [0, 1], [2], [3]) == RISING.tolist()


def test_repetition_divides_what_is_positive_and_multiplies_what_is_negative() -> None:
    row = adjusted(SamplingParams(repetition_penalty=2), [0, 7], [], [])
    assert row == [-6, *RISING.tolist()[1:7], 2]


def test_repetition_counts_prompt_and_output_alike_and_once() -> None:
    in_prompt = adjusted(SamplingParams(repetition_penalty=2), [7], [], [])
    assert in_prompt == adjusted(SamplingParams(repetition_penalty=2), [], [7], [])
    assert in_prompt == adjusted(SamplingParams(repetition_penalty=2), [7, 7], [7], [7])


@pytest.mark.parametrize("penalty", ["frequency_penalty", "presence_penalty"])
def test_frequency_and_presence_leave_the_prompt_alone(penalty: str) -> None:
    assert adjusted(with_penalty(penalty, 1), [5, 5], [], []) == RISING.tolist()


def test_frequency_counts_every_occurrence_in_the_output() -> None:
    row = adjusted(SamplingParams(frequency_penalty=0.5), [5], [5, 5], [5])
    assert row[5] == RISING[5] - 1.5


def test_presence_counts_once() -> None:
    row = adjusted(SamplingParams(presence_penalty=0.5), [], [5, 5], [5])
    assert row[5] == RISING[5] - 0.5


@pytest.mark.parametrize("penalty", ["frequency_penalty", "presence_penalty"])
def test_a_penalty_is_subtracted_in_float64(penalty: str) -> None:
    assert adjusted(with_penalty(penalty, 1.1), [], [5], [])[5] == 2 - 1.1


def test_penalties_come_before_the_bias() -> None:
    row = adjusted(SamplingParams(repetition_penalty=2, logit_bias={7: 10}), [7], [], [])
    assert row[7] == 4 / 2 + 10


def test_the_logits_given_are_left_as_they_were() -> None:
    logits = RISING[None].to(torch.float64)
    sampling.adjust(logits, SamplingParams(frequency_penalty=1, logit_bias={0: 1}), [1, 2], 0, [[]])
    assert torch.equal(logits[0], RISING.to(torch.float64))


def test_a_forbidden_token_stays_forbidden_under_penalties() -> None:
    masked = RISING.clone()
    masked[2] = -torch.inf
    row = adjusted(SamplingParams(repetition_penalty=2, frequency_penalty=1), [2], [2], [], masked)
    assert row[2] == -float("inf")


def test_half_precision_logits_are_adjusted_in_float64() -> None:
    rows = sampling.adjust(RISING[None].to(torch.bfloat16), SamplingParams(), [], 0, [[]])
    assert rows.dtype == torch.float64
