"""Three-token answers have exactly the target's distribution, whatever drafted them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from common.constraint import Constraint, ConstraintKind
from common.draft_types import Block
from common.types import Mode, SamplingParams, Stopping
from tests.statistical import drafts
from tests.statistical.drafts import InProcessDraft, InProcessTreeDraft
from tests.statistical.engines import ANSWER, TO_THE_END, count_outcomes
from tests.statistical.reference import Allows, Array, Target
from tests.support.models import tiny_tokenizer
from verify_service.acceptance import ACCEPTANCE, Acceptance, TargetRows, Verdict, accept_rejection

SAMPLES = 2000
PARAMETERS = {
    "plain": SamplingParams(temperature=0.6),
    "top-k": SamplingParams(temperature=0.9, top_k=5),
    "top-p": SamplingParams(temperature=1.3, top_p=0.8),
    "min-p": SamplingParams(temperature=1.3, min_p=0.05),
    "penalties": SamplingParams(
        temperature=0.5, repetition_penalty=1.3, frequency_penalty=0.7, presence_penalty=0.5
    ),
    "bias": SamplingParams(temperature=0.6, logit_bias={7: 3.0, 20: 2.0, 5: -4.0}),
}
DRAFTS = ("good", "bad", "adversarial", "one-hot")
CASES = [("plain", "none"), ("plain", "lying"), *itertools.product(PARAMETERS, DRAFTS)]
TREE_CASES = [
    *itertools.product(["plain"], [*DRAFTS, "lying"]),
    ("penalties", "good"),
    ("top-k", "good"),
    ("top-p", "bad"),
    ("bias", "one-hot"),
]


def make_draft(
    kind: str, target: Target, made: type[InProcessDraft] = InProcessDraft
) -> InProcessDraft | None:
    match kind:
        case "none":
            return None
        case "good":
            return made(target, drafts.good)
        case "bad":
            return made(target, drafts.bad)
        case "adversarial":
            return made(target, drafts.adversarial)
        case "lying":
            return made(target, drafts.bad, honest=False)
        case _:
            return made(target, drafts.good, one_hot=True)


def chi_square(counts: Array, expected: Array) -> float:
    """The p-value of ``counts`` under ``expected``; rare outcomes are pooled."""
    assert counts[expected == 0].sum() == 0, "an outcome that the target never gives"
    expected = expected * counts.sum()
    common = expected >= 5
    cells = np.append(counts[common], counts[~common].sum())
    wanted = np.append(expected[common], expected[~common].sum())
    assert len(cells) > 10, "too few outcomes to tell distributions apart"
    return float(stats.chisquare(cells[wanted > 0], wanted[wanted > 0]).pvalue)


@pytest.mark.parametrize(("parameters", "kind"), CASES)
@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.value)
async def test_answers_have_the_targets_distribution(
    model: Any, target: Target, mode: Mode, parameters: str, kind: str
) -> None:
    params = PARAMETERS[parameters]
    draft = make_draft(kind, target)
    counts, acceptance = await count_outcomes(model, target, params, mode, draft=draft, samples=SAMPLES)
    p_value = chi_square(counts, target.outcomes(params))
    assert p_value > 0.001, f"p = {p_value:.2g} at an acceptance rate of {acceptance:.2f}"
    if kind == "good":
        assert acceptance > 0.5, "a good draft that is not accepted tests nothing"


@pytest.mark.parametrize(("parameters", "kind"), TREE_CASES)
@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.value)
async def test_answers_drafted_as_trees_have_the_targets_distribution(
    model: Any, target: Target, mode: Mode, parameters: str, kind: str
) -> None:
    params, draft = PARAMETERS[parameters], make_draft(kind, target, InProcessTreeDraft)
    counts, acceptance = await count_outcomes(
        model, target, params, mode, draft=draft, samples=SAMPLES, tree_width=3
    )
    p_value = chi_square(counts, target.outcomes(params))
    assert p_value > 0.001, f"p = {p_value:.2g} at an acceptance rate of {acceptance:.2f}"
    if kind == "good":
        assert acceptance > 0.2, "of four guesses hardly one is accepted; that tests nothing"


# Characters of the tiny tokenizer by id; id 1 ends an answer.
LETTERS = frozenset(range(2, 28))
VOWELS = frozenset(tiny_tokenizer().encode("aeiou"))


def letters_vowel_letters(context: tuple[int, ...], token: int) -> bool:
    """As the regular expression below has it."""
    return token in (VOWELS if len(context) == 1 else LETTERS)


HELD = frozenset(range(2, 22))


def held_at_first(context: tuple[int, ...], token: int) -> bool:
    return len(context) >= 2 or token not in HELD


MASKED: dict[str, tuple[SamplingParams, Stopping, Constraint | None, Allows]] = {
    "regex and top-k": (
        SamplingParams(temperature=1.5, top_k=6, logit_bias={4: 2.0}),
        TO_THE_END,
        Constraint(ConstraintKind.REGEX, "[a-z][aeiou][a-z]{5}"),
        letters_vowel_letters,
    ),
    "least tokens": (
        SamplingParams(temperature=1.2, min_p=0.01),
        Stopping(max_tokens=ANSWER, min_tokens=2, stop_token_ids=HELD),
        None,
        held_at_first,
    ),
}


@pytest.mark.parametrize("kind", ["good", "bad", "one-hot"])
@pytest.mark.parametrize("name", MASKED)
async def test_answers_that_are_held_to_something_have_what_is_left_of_the_targets_distribution(
    model: Any, target: Target, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A good draft is held to the same; the others know nothing of it and guess what is forbidden."""
    params, stopping, constraint, allowed = MASKED[name]
    unmasked = Target.__new__(Target)
    unmasked.__dict__.update(target.__dict__ | {"_known": {}})
    monkeypatch.setattr(target, "allowed", allowed)
    draft = make_draft(kind, target if kind == "good" else unmasked)
    counts, acceptance = await count_outcomes(
        model,
        target,
        params,
        Mode.REJECTION,
        draft=draft,
        samples=SAMPLES,
        stopping=stopping,
        constraint=constraint,
    )
    p_value = chi_square(counts, target.outcomes(params))
    assert p_value > 0.001, f"p = {p_value:.2g} at an acceptance rate of {acceptance:.2f}"
    if kind == "good":
        assert acceptance > 0.5, "a good draft that is not accepted tests nothing"


async def p_value_under(model: Any, target: Target, draft: InProcessDraft, mutant: Acceptance) -> float:
    """The chi-square of plain rejection sampling with a mutated acceptance."""
    params = PARAMETERS["plain"]
    counts, _ = await count_outcomes(
        model,
        target,
        params,
        Mode.REJECTION,
        draft=draft,
        samples=SAMPLES,
        acceptance={**ACCEPTANCE, Mode.REJECTION: mutant},
    )
    return chi_square(counts, target.outcomes(params))


async def test_the_chi_square_notices_a_residual_that_is_not_one(model: Any, target: Target) -> None:
    """The mutation: a refused guess is replaced from p instead of norm(max(0, p - q))."""

    def mutant(rows: TargetRows, block: Block, seed: int) -> Verdict:
        return accept_rejection(rows, block, seed, residual=lambda p, q: p)

    assert await p_value_under(model, target, InProcessDraft(target, drafts.bad), mutant) < 1e-6


async def test_the_chi_square_notices_a_lying_draft_that_is_believed(model: Any, target: Target) -> None:
    """The mutation: q is taken as declared, though the guess was not drawn from it."""
    liar = InProcessDraft(target, drafts.bad, honest=False)

    def mutant(rows: TargetRows, block: Block, seed: int) -> Verdict:
        declared = liar.declared.get(block.block_id, ())[: len(block.token_ids)]
        return accept_rejection(rows, replace(block, distributions=declared), seed)

    assert await p_value_under(model, target, liar, mutant) < 1e-6
