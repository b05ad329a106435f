"""Ranges are checked where a value is made, so nothing past the edge holds one out of range."""

from __future__ import annotations

import math
from typing import Any

import pytest

from common.draft_types import Block, SparseDistribution
from common.errors import InvalidRequest
from common.types import FactCheck, GenerateRequest, Mode, SamplingParams, SpeculationParams, Stopping


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 2.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", math.nan),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("min_p", math.nan),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", 10.1),
        ("repetition_penalty", math.nan),
        ("frequency_penalty", -2.1),
        ("frequency_penalty", 2.1),
        ("frequency_penalty", math.nan),
        ("presence_penalty", -2.1),
        ("presence_penalty", 2.1),
        ("presence_penalty", math.nan),
        ("logit_bias", {0: -100.1}),
        ("logit_bias", {0: 1.0, 1: 100.1}),
        ("logit_bias", {0: math.nan}),
        ("seed", 2**63),
        ("seed", -(2**63) - 1),
    ],
)
def test_a_sampling_parameter_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        SamplingParams(**{name: value})
    assert caught.value.field == name
    assert name in caught.value.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0),
        ("temperature", 2),
        ("top_k", 0),
        ("top_k", 2**32 - 1),
        ("top_p", 5e-324),
        ("top_p", 1),
        ("min_p", 0),
        ("min_p", 1),
        ("repetition_penalty", 5e-324),
        ("repetition_penalty", 10),
        ("frequency_penalty", -2),
        ("presence_penalty", 2),
        ("logit_bias", {0: -100, 2**32 - 1: 100}),
        ("seed", -(2**63)),
        ("seed", 2**63 - 1),
    ],
)
def test_the_ends_of_every_range_are_allowed(name: str, value: Any) -> None:
    assert getattr(SamplingParams(**{name: value}), name) == value


@pytest.mark.parametrize("penalty", ["repetition_penalty", "frequency_penalty", "presence_penalty"])
def test_any_penalty_makes_the_parameters_penalised(penalty: str) -> None:
    changed: Any = {penalty: 0.5}
    assert SamplingParams(**changed).penalised
    assert not SamplingParams().penalised


@pytest.mark.parametrize("max_tokens", [0, -1])
def test_an_answer_of_no_tokens_is_refused(max_tokens: int) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Stopping(max_tokens=max_tokens)
    assert caught.value.field == "max_tokens"


@pytest.mark.parametrize(("fewest", "most"), [(-1, None), (4, 3)])
def test_a_least_number_of_tokens_below_none_or_above_the_most_is_refused(
    fewest: int, most: int | None
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Stopping(max_tokens=most, min_tokens=fewest)
    assert caught.value.field == "min_tokens"


@pytest.mark.parametrize("count", [-1, 21])
def test_a_number_of_log_probabilities_out_of_range_is_refused(count: int) -> None:
    with pytest.raises(InvalidRequest) as caught:
        GenerateRequest("r", "x", top_logprobs=count)
    assert caught.value.field == "top_logprobs"


def test_a_cache_salt_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        GenerateRequest("r", "x", cache_salt="s" * 257)
    assert caught.value.field == "cache_salt"


def test_a_veto_under_rejection_sampling_is_refused() -> None:
    with pytest.raises(InvalidRequest) as refused:
        SpeculationParams(mode=Mode.REJECTION, fact_check=FactCheck.VETO)
    assert refused.value.field == "speculation.mode"


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        Stopping(stop=("end", ""))
    assert caught.value.field == "stop"


def test_the_prefix_of_a_block_shortens_everything_that_goes_with_its_tokens() -> None:
    q = SparseDistribution((1,), (1.0,))
    block = Block(
        7, 3, (1, 2, 3), (-1, 0, 1), (0.1, 0.2, 0.3), (q, q, q), (0.4, 0.5, 0.6), "source", "v1", 0.5
    )
    expected = Block(7, 3, (1, 2), (-1, 0), (0.1, 0.2), (q, q), (0.4, 0.5), "source", "v1", 0.5)
    assert block.prefix(2) == expected


def test_some_guesses_of_a_tree_keep_their_sources_and_their_parents() -> None:
    tree = Block(1, 3, (1, 2, 3, 4), parents=(-1, -1, 1, 2), source="pool", sources=("a", "b", "b", "c"))
    kept = tree.only((1, 2, 3))
    assert kept == Block(1, 3, (2, 3, 4), parents=(-1, 0, 1), source="pool", sources=("b", "b", "c"))
    assert [kept.source_of(node) for node in range(3)] == ["pool/b", "pool/b", "pool/c"]
    assert Block(1, 3, (2,), source="pool").source_of(0) == "pool"


@pytest.mark.parametrize(
    ("depth", "kept"), [(0, ()), (1, (1, 2)), (2, (1, 2, 3)), (3, (1, 2, 3, 4, 5)), (9, (1, 2, 3, 4, 5))]
)
def test_a_shallow_block_ends_before_its_first_guess_that_is_too_deep(
    depth: int, kept: tuple[int, ...]
) -> None:
    tree = Block(1, 3, (1, 2, 3, 4, 5), parents=(-1, -1, 1, 2, 0))
    assert tree.shallow(depth).token_ids == kept
    assert len(Block(1, 3, (1, 2, 3)).shallow(depth).token_ids) == min(depth, 3)


@pytest.mark.parametrize("width", [0, 9])
def test_a_tree_width_out_of_range_is_refused(width: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        SpeculationParams(tree_width=width)
    assert refused.value.field == "speculation.tree_width"


@pytest.mark.parametrize("check", [FactCheck.ANNOTATE, FactCheck.VETO])
def test_a_tree_that_is_fact_checked_is_refused_and_a_chain_is_not(check: FactCheck) -> None:
    assert SpeculationParams(tree_width=1, fact_check=check).tree_width == 1
    with pytest.raises(InvalidRequest) as refused:
        SpeculationParams(tree_width=2, fact_check=check)
    assert refused.value.field == "speculation.tree_width"
