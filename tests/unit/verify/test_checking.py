"""A block from a draft that is not trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from common import noise, sampling, trees
from common.draft_types import Block, SparseDistribution
from common.types import Mode
from verify_service.drafts.checking import Asked, InvalidBlock, check_block, sampled_as_declared

VOCABULARY = 100
HALVES = SparseDistribution((5, 6), (0.5, 0.5))


def block(*token_ids: int, **fields: object) -> Block:
    return Block(1, 3, token_ids, **fields)  # type: ignore[arg-type]


def asked(mode: Mode, guesses: int = 4, width: int = 1) -> Asked:
    return Asked(guesses, width, VOCABULARY, mode)


def guessed(token_ids: Sequence[int], qs: Sequence[SparseDistribution], position: int) -> Block:
    return Block(1, position, tuple(token_ids), distributions=tuple(qs))


def with_q(token_ids: tuple[int, ...], probabilities: tuple[float, ...]) -> Block:
    return block(5, distributions=(SparseDistribution(token_ids, probabilities),))


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        pytest.param(block(1, 2, 3, 4, 5), "5 guesses where 4", id="longer than asked"),
        pytest.param(block(VOCABULARY), "vocabulary", id="first unknown id"),
        pytest.param(block(1, 2**32 - 1), "vocabulary", id="huge id"),
        pytest.param(block(1, 2, 3, parents=(-1, -1, -1)), "3 guesses after the same", id="too wide a root"),
        pytest.param(block(1, 2, 3, 4, parents=(-1, 0, 0, 0)), "3 guesses after", id="too wide a node"),
        pytest.param(block(1, 1, parents=(-1, -1)), "same guess twice", id="equal siblings"),
        pytest.param(block(1, 2, 3, 2, parents=(-1, 0, -1, 0)), "twice", id="equal siblings, not in a row"),
        pytest.param(block(1, 2, parents=(-1, 1)), "tree", id="own parent"),
        pytest.param(block(1, 2, 3, parents=(-1, 2, 0)), "tree", id="a parent further on"),
        pytest.param(block(1, 2, parents=(-2, 0)), "tree", id="a parent before the root"),
        pytest.param(block(1, 2, parents=(-1,)), "tree", id="too few parents"),
        pytest.param(block(1, 2, parents=(-1, 0, 1)), "tree", id="too many parents"),
        pytest.param(block(parents=(-1,)), "tree", id="a parent of nothing"),
    ],
)
def test_what_is_no_tree_of_known_tokens_is_refused_in_every_mode(
    wrong: Block, reason: str, mode: Mode
) -> None:
    with pytest.raises(InvalidBlock, match=reason):
        check_block(wrong, asked(mode, 4, width=2))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        pytest.param(block(5, 6, distributions=(HALVES,)), "one distribution per guess", id="too few"),
        pytest.param(block(5, distributions=(HALVES, HALVES)), "one distribution per guess", id="too many"),
        pytest.param(with_q((5, 6), (1.0,)), "match", id="fewer probabilities"),
        pytest.param(with_q((5,), (0.5, 0.5)), "match", id="fewer tokens"),
        pytest.param(with_q((), ()), "match", id="empty"),
        pytest.param(with_q(tuple(range(65)), (1 / 65,) * 65), "too long", id="more than 64"),
        pytest.param(with_q((5, 5), (0.5, 0.5)), "repeated", id="repeated token"),
        pytest.param(with_q((5, VOCABULARY), (0.5, 0.5)), "unknown", id="unknown token"),
        pytest.param(with_q((5, 6), (1.5, -0.5)), "positive", id="negative"),
        pytest.param(with_q((5, 6), (1.0, 0.0)), "positive", id="zero"),
        pytest.param(with_q((5, 6), (0.5, math.nan)), "positive", id="nan"),
        pytest.param(with_q((5, 6), (0.5, math.inf)), "positive", id="inf"),
        pytest.param(with_q((5, 6), (0.5, 0.4)), "sum", id="sums to less"),
        pytest.param(with_q((5, 6), (0.5, 0.6)), "sum", id="sums to more"),
        pytest.param(with_q((6, 7), (0.5, 0.5)), "lacks its guess", id="without the guess"),
    ],
)
def test_a_distribution_that_is_none_is_refused_where_it_would_be_used(wrong: Block, reason: str) -> None:
    with pytest.raises(InvalidBlock, match=reason):
        check_block(wrong, asked(Mode.REJECTION, 4))
    assert check_block(wrong, asked(Mode.KEYED, 4)).distributions == ()


def test_a_good_block_comes_through_as_it_is_without_its_parents() -> None:
    good = block(5, 6, parents=(-1, 0), distributions=(HALVES, HALVES), confidences=(0.5, 0.5))
    checked = check_block(good, asked(Mode.REJECTION, 2))
    assert (checked.token_ids, checked.distributions, checked.parents) == ((5, 6), (HALVES, HALVES), ())
    assert check_block(block(), asked(Mode.REJECTION, 4)) == block()


@pytest.mark.parametrize("mode", Mode)
def test_a_tree_no_wider_than_asked_comes_through_as_it_is(mode: Mode) -> None:
    tree = block(5, 6, 5, 5, parents=(-1, -1, 0, 1))
    assert check_block(tree, asked(mode, width=2)) == tree


def test_cousins_may_be_equal_and_siblings_of_a_chain_asked_for_are_refused() -> None:
    with pytest.raises(InvalidBlock, match="2 guesses after the same text where 1"):
        check_block(block(5, 6, parents=(-1, -1)), asked(Mode.KEYED, width=1))


def test_a_distribution_that_could_have_drawn_an_earlier_siblings_token_again_is_always_refused() -> None:
    """Not only when it did: refusing a draft for what it drew favours the other outcomes."""
    rest = SparseDistribution((6,), (1.0,))
    for later, refused in ((HALVES, True), (rest, False)):
        tree = block(5, 6, parents=(-1, -1), distributions=(HALVES, later))
        if refused:
            with pytest.raises(InvalidBlock, match="earlier sibling"):
                check_block(tree, asked(Mode.REJECTION, width=2))
        else:
            assert check_block(tree, asked(Mode.REJECTION, width=2)) == tree


def test_rounding_to_float32_on_the_wire_is_tolerated() -> None:
    q = sampling.draft_distribution(torch.full((64,), 1 / 64, dtype=torch.float64))
    assert check_block(block(5, distributions=(q,)), asked(Mode.REJECTION, 4)).distributions == (q,)


DISTRIBUTIONS = st.lists(
    st.dictionaries(st.integers(0, 99), st.floats(0.01, 1), min_size=2, max_size=8), min_size=1, max_size=6
)


@given(DISTRIBUTIONS, st.integers(0, 2**64 - 1), st.integers(0, 10_000))
def test_an_honest_draft_is_recognised(weights: list[dict[int, float]], seed: int, position: int) -> None:
    qs = [
        SparseDistribution(tuple(row), tuple(value / sum(row.values()) for value in row.values()))
        for row in weights
    ]
    guesses = [sampling.choose_sparse(q, seed, position + index) for index, q in enumerate(qs)]
    assert sampled_as_declared(guessed(guesses, qs, position), seed)
    other = [next(t for t in q.token_ids if t != guess) for q, guess in zip(qs, guesses, strict=True)]
    for index in range(len(guesses)):
        swapped = [*guesses[:index], other[index], *guesses[index + 1 :]]
        assert not sampled_as_declared(guessed(swapped, qs, position), seed)


def test_a_draft_that_sends_its_argmax_under_a_sampling_q_is_found_out_soon() -> None:
    q = SparseDistribution((1, 2, 3), (0.6, 0.3, 0.1))
    seeds = [noise.draft_seed(seed) for seed in range(200)]
    believed = sum(sampled_as_declared(guessed([1] * 4, [q] * 4, 10), seed) for seed in seeds)
    assert believed / len(seeds) < 0.25  # 0.6 ** 4 is 0.13: a block of four rarely passes by luck


def test_the_wrong_noise_is_no_excuse() -> None:
    q = SparseDistribution(tuple(range(50)), (0.02,) * 50)
    guesses = [sampling.choose_sparse(q, 1, index) for index in range(8)]
    assert sampled_as_declared(guessed(guesses, [q] * 8, 0), 1)
    assert not sampled_as_declared(guessed(guesses, [q] * 8, 0), 2)
    assert not sampled_as_declared(guessed(guesses, [q] * 8, 1), 1)


@given(st.integers(0, 2**64 - 1), st.integers(0, 10_000))
def test_an_honest_tree_is_recognised_and_one_with_siblings_swapped_is_not(seed: int, position: int) -> None:
    tree, q = (-1, -1, 0, 1, 0), SparseDistribution((1, 2, 3, 4), (0.4, 0.3, 0.2, 0.1))
    first, second = drawn(q, seed, position, 2, draw=0)
    below_first = drawn(q, seed, position + 1, 2, draw=trees.draw(0, 0))
    ((below_second, _),) = drawn(q, seed, position + 1, 1, draw=trees.draw(1, 0))
    nodes = [first, second, below_first[0], (below_second, q), below_first[1]]
    made = replace(guessed([t for t, _ in nodes], [q for _, q in nodes], position), parents=tree)
    assert sampled_as_declared(made, seed)
    assert check_block(made, asked(Mode.REJECTION, 5, width=2)) == made
    swapped = (second[0], first[0], *made.token_ids[2:])
    assert not sampled_as_declared(replace(made, token_ids=swapped, distributions=(q,) * 5), seed)


def drawn(
    q: SparseDistribution, seed: int, position: int, count: int, draw: int
) -> list[tuple[int, SparseDistribution]]:
    """Siblings without replacement, each with what it was drawn from; the first is draw ``draw``."""
    found = []
    left: SparseDistribution | None = q
    for rank in range(count):
        assert left
        token_id = sampling.choose_sparse(left, seed, position, draw + rank)
        found.append((token_id, left))
        left = sampling.without(left, token_id)
    return found


def test_sources_are_one_per_guess_and_few() -> None:
    asked = Asked(20, 1, 100, Mode.KEYED)
    assert check_block(Block(1, 0, (5, 6), sources=("ngram", "self")), asked).sources == ("ngram", "self")
    with pytest.raises(InvalidBlock, match="one source per guess"):
        check_block(Block(1, 0, (5, 6), sources=("ngram",)), asked)
    many = tuple("abcdefghijklmnopq")
    with pytest.raises(InvalidBlock, match="sources"):
        check_block(Block(1, 0, tuple(range(17)), sources=many), asked)


def test_a_source_whose_name_may_not_be_shown_is_another() -> None:
    names = ("ngram", "", "Ngram", "a b", "a" * 33, "\n", "a\n")
    block = Block(1, 0, tuple(range(7)), sources=names)
    assert check_block(block, Asked(7, 1, 100, Mode.KEYED)).sources == ("ngram", *["other"] * 6)


def test_the_beginning_of_a_block_keeps_its_sources() -> None:
    assert Block(1, 0, (5, 6), sources=("ngram", "self")).prefix(1).sources == ("ngram",)
