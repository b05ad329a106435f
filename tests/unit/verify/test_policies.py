"""Which guesses stand under each lossy policy, from target rows made by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from common.allowed import Allowed
from common.draft_types import Block, SparseDistribution
from common.errors import InvalidRequest
from common.types import PolicyChoice, SamplingParams
from verify_service.acceptance import TargetRows, Verdict, accept_keyed, embedding
from verify_service.acceptance.block import Run
from verify_service.acceptance.consensus import Consensus
from verify_service.acceptance.kl import Divergence
from verify_service.acceptance.lossy import Deviation, Policy, deviations, normalised_kl
from verify_service.acceptance.policies import NAMES, Resources, make
from verify_service.acceptance.semantic import Semantic
from verify_service.acceptance.strict import Strict
from verify_service.acceptance.typical import Typical

GREEDY = SamplingParams(temperature=0)
WARM = SamplingParams(temperature=1)
COMMITTED = [1, 2, 3]
V = 8
WORDS = [" big", " large", " Paris", " two", " not", " b", "ly", " and"]
RESOURCES = Resources(lambda token: WORDS[token], lambda: alike)


def alike(one: str, other: str) -> float:
    return 0.8 if {one, other} <= {"big", "large", "not", "two"} else 0.1


def believes(*rows: Mapping[int, float]) -> Tensor:
    """Logits of these probabilities, the rest of each row spread over the other tokens."""
    made = torch.empty(len(rows), V, dtype=torch.float64)
    for row, said in zip(made, rows, strict=True):
        row.fill_((1 - sum(said.values())) / (V - len(said)))
        for token, probability in said.items():
            row[token] = probability
    return made.log()


def rows(logits: Tensor, block: Block, params: SamplingParams = GREEDY) -> TargetRows:
    return TargetRows(logits, params, COMMITTED, 2, block)


def chain(*token_ids: int, shown: Sequence[SparseDistribution] = ()) -> Block:
    return Block(1, len(COMMITTED), token_ids, distributions=tuple(shown))


def judged(policy: Policy, logits: Tensor, block: Block, params: SamplingParams = GREEDY) -> Verdict:
    return policy.accept(rows(logits, block, params), block, seed=5)


def made(name: str, **parameters: float) -> Policy:
    policy = make(PolicyChoice(name, parameters), RESOURCES)
    assert policy
    return policy


SURE = believes({0: 0.9}, {1: 0.9}, {2: 0.9}, {3: 0.9})


def test_strict_takes_the_targets_likeliest_tokens_at_any_temperature() -> None:
    hot = SamplingParams(temperature=2)
    for seed in range(30):
        block = chain(0, 1, 4)
        assert Strict().accept(rows(SURE, block, hot), block, seed).nodes == (0, 1)
    assert judged(Strict(), SURE, chain(0, 1, 4)) == Verdict((0, 1), 2)
    assert judged(Strict(), SURE, chain(0, 1, 2)) == Verdict((0, 1, 2), 3)


def test_block_takes_a_run_that_is_long_enough_and_nothing_of_a_shorter_one() -> None:
    assert judged(Run(least=2), SURE, chain(0, 1, 4)) == Verdict((0, 1), 2)
    assert judged(Run(), SURE, chain(0, 1, 4)) == Verdict((), 0)
    assert judged(Run(), SURE, chain(0, 1, 2)) == Verdict((0, 1, 2), 3)


def test_kl_takes_a_guess_that_the_target_would_not_make_where_the_beliefs_are_close() -> None:
    target = believes({0: 0.5, 1: 0.4}, {2: 0.9})
    close = SparseDistribution((0, 1), (0.45, 0.55))
    far = SparseDistribution((1, 5), (0.1, 0.9))
    assert judged(Divergence(), target, chain(1, shown=[close])) == Verdict((0,), 2)
    assert judged(Divergence(), target, chain(5, shown=[far])) == Verdict((), 0)
    assert judged(Divergence(delta=1e-6), target, chain(1, shown=[close])) == Verdict((), 0)


def test_kl_takes_a_draft_without_beliefs_for_certain() -> None:
    """At temperature 0.6 a token of 0.3 beside one of 0.6 has about a quarter: −log 0.24 / log 8 = 0.69."""
    target = believes({0: 0.6, 1: 0.3}, {2: 0.9})
    assert judged(Divergence(delta=0.65, cap=1), target, chain(1)) == Verdict((), 0)
    assert judged(Divergence(delta=0.75, cap=1), target, chain(1)) == Verdict((0,), 2)


def test_the_threshold_of_kl_grows_with_the_position_up_to_its_cap() -> None:
    policy = Divergence()
    assert policy.threshold(0) == pytest.approx(0.15)
    assert policy.threshold(1) == pytest.approx(0.15 * 1.08)
    assert policy.threshold(7) == pytest.approx(0.15 * 1.24)
    assert policy.threshold(2**20) == 0.3


def test_kl_may_accept_with_a_probability_that_falls_with_the_divergence() -> None:
    target = believes({0: 0.5, 1: 0.4}, {2: 0.9})
    block = chain(1)
    policy = Divergence(delta=0.5, cap=0.5, probabilistic=True)
    expected = math.exp(
        -normalised_kl(SparseDistribution((1,), (1.0,)), rows(target, block).logprobs(0, 0.6)) / 0.5
    )
    taken = [bool(policy.accept(rows(target, block), block, seed).nodes) for seed in range(4000)]
    assert sum(taken) / len(taken) == pytest.approx(expected, abs=0.03)
    assert taken[:50] == [bool(policy.accept(rows(target, block), block, seed).nodes) for seed in range(50)]


def test_typical_asks_for_less_where_the_target_is_unsure() -> None:
    unsure = believes(dict.fromkeys(range(V - 1), 1 / V), {2: 0.9})
    assert judged(Typical(), unsure, chain(5)).nodes == (0,)
    assert judged(Typical(), SURE[:2], chain(5)).nodes == ()
    assert judged(Typical(temperature=2), believes({0: 0.6, 5: 0.3}, {2: 0.9}), chain(5)).nodes == (0,)


@pytest.mark.parametrize(
    ("own", "guess", "after", "stands"),
    [
        pytest.param(0, 1, 7, True, id="words that mean the same"),
        pytest.param(7, 1, 7, False, id="words that do not"),
        pytest.param(0, 2, 7, False, id="a name"),
        pytest.param(0, 3, 7, False, id="a number"),
        pytest.param(0, 4, 7, False, id="a negation"),
        pytest.param(4, 0, 7, False, id="a negation is what the target says"),
        pytest.param(0, 1, 6, False, id="the draft goes on with the same word"),
        pytest.param(0, 1, None, False, id="the block ends, so perhaps the word does not"),
    ],
)
def test_semantic_takes_a_word_of_the_same_meaning_only(
    own: int, guess: int, after: int | None, stands: bool
) -> None:
    policy = made("semantic")
    block = chain(guess, *([] if after is None else [after]))
    target = believes(*[{own: 0.9}] * (1 + len(block.token_ids)))
    assert (judged(policy, target, block).nodes[:1] == (0,)) == stands


def test_words_are_compared_by_their_embeddings() -> None:
    similarity = embedding.load_words()
    assert similarity("big", "large") > 0.75
    assert similarity("quickly", "rapidly") > 0.75
    for one, other in (("increase", "decrease"), ("hot", "cold"), ("before", "after"), ("safe", "dangerous")):
        assert similarity(one, other) < 0.75
    assert similarity("large", "big") == similarity("big", "large")


def with_disagreements(block: Block, *apart: float) -> Block:
    return replace(block, disagreements=apart)


def test_drafts_that_agree_have_their_way() -> None:
    assert judged(Consensus(), SURE[:2], with_disagreements(chain(5), 0.05)).nodes == (0,)
    assert judged(Consensus(), SURE[:2], with_disagreements(chain(5), 0.12)) == Verdict((), 0)


def test_a_draft_alone_does_not() -> None:
    assert judged(Consensus(), SURE[:2], with_disagreements(chain(5), -1.0)) == Verdict((), 0)
    assert judged(Consensus(), SURE[:2], chain(5)) == Verdict((), 0)


def test_where_drafts_are_apart_the_target_chooses_among_their_branches() -> None:
    """Two branches: 1 then 4, and 2 then 5. The target would say 0, but finds the second one likelier."""
    block = Block(1, 3, (1, 2, 4, 5), parents=(-1, -1, 0, 1), disagreements=(0.5, 0.5, -1.0, -1.0))
    target = believes({0: 0.4, 1: 0.2, 2: 0.3}, {0: 0.9}, {5: 0.9}, {0: 0.9}, {6: 0.9})
    assert judged(Consensus(), target, block) == Verdict((1, 3), 6)
    dull = believes({0: 0.4, 1: 0.2, 2: 0.3}, {0: 0.9}, {0: 0.9}, {0: 0.9}, {6: 0.9})
    assert judged(Consensus(), dull, block) == Verdict((), 0)


LOGITS = st.lists(st.lists(st.floats(-4, 4), min_size=V, max_size=V), min_size=4, max_size=4)
EVERY = pytest.mark.parametrize("name", NAMES)


@EVERY
@given(LOGITS, st.lists(st.integers(0, V - 1), min_size=3, max_size=3), st.integers(0, 2**64 - 1))
def test_the_targets_own_tokens_always_stand_and_what_follows_is_its_own(
    name: str, logits: list[list[float]], guesses: list[int], seed: int
) -> None:
    policy, tensor = made(name), torch.tensor(logits, dtype=torch.float64)
    block = chain(*guesses)
    verdict = policy.accept(rows(tensor, block, WARM), block, seed)
    row = verdict.nodes[-1] + 1 if verdict.nodes else 0
    assert verdict.token == rows(tensor, block, WARM).choice(row, seed)
    own: list[int] = []
    while len(own) < 3:
        own.append(int(tensor[len(own)].argmax()))
    right = chain(*own)
    assert policy.accept(rows(tensor, right), right, seed) == accept_keyed(rows(tensor, right), right, seed)


@EVERY
@given(LOGITS, st.lists(st.integers(0, V - 1), min_size=3, max_size=3), st.sampled_from(range(V)))
def test_what_the_request_does_not_allow_never_stands(
    name: str, logits: list[list[float]], guesses: list[int], forbidden: int
) -> None:
    block = replace(chain(*guesses), disagreements=(0.0,) * 3)
    allowed = Allowed(V, {forbidden: 100})
    target = TargetRows(torch.tensor(logits, dtype=torch.float64), WARM, COMMITTED, 2, block, allowed=allowed)
    allowed.follow(COMMITTED, 2)
    verdict = made(name).accept(target, block, seed=9)
    assert forbidden not in [*(guesses[node] for node in verdict.nodes), verdict.token]


def test_a_deviation_says_whether_the_target_would_have_chosen_otherwise_and_how_far_it_is() -> None:
    target, block = believes({0: 0.6, 1: 0.3}, {2: 0.9}, {3: 0.9}), chain(1, 2)
    found = deviations(rows(target, block), block, 5, Verdict((0, 1), 3))
    assert [deviation.strayed for deviation in found] == [True, False]
    assert 0.5 < found[0].nkl < 1
    assert found[1].nkl < 0.05
    assert deviations(rows(target, block), block, 5, Verdict((), 0)) == ()
    impossible = believes({0: 0.999999}, {2: 0.9}, {3: 0.9}).clone()
    impossible[0, 1] = -torch.inf
    assert deviations(rows(impossible, block), block, 5, Verdict((0,), 2)) == (Deviation(True, 1.0),)


@pytest.mark.parametrize(
    ("choice", "field"),
    [
        (PolicyChoice("loose"), "speculation.policy"),
        (PolicyChoice("kl", {"gamma": 1}), "speculation.policy.gamma"),
        (PolicyChoice("kl", {"delta": 0}), "speculation.policy.delta"),
        (PolicyChoice("kl", {"cap": math.nan}), "speculation.policy.cap"),
        (PolicyChoice("block", {"least": 2.5}), "speculation.policy.least"),
        (PolicyChoice("typical", {"epsilon": 1.5}), "speculation.policy.epsilon"),
        (PolicyChoice("semantic", {"least": 0}), "speculation.policy.least"),
        (PolicyChoice("semantic", {"similarity": 1}), "speculation.policy.similarity"),
        (PolicyChoice("strict", {"name": 1}), "speculation.policy.name"),
        (PolicyChoice("lossless", {"delta": 0.1}), "speculation.policy.delta"),
    ],
)
def test_a_wrong_name_or_parameter_is_refused_by_name(choice: PolicyChoice, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        make(choice, RESOURCES)
    assert refused.value.field == field


def test_parameters_are_what_was_asked_for() -> None:
    assert made("kl", delta=0.2, probabilistic=1.0) == Divergence(delta=0.2, probabilistic=True)
    assert made("block", least=5.0) == Run(5)
    assert isinstance(made("semantic", least=0.9), Semantic)
    assert make(PolicyChoice("lossless"), RESOURCES) is None
