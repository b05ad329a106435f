"""Merged guesses of a pool leave the target's distribution as it is; merges that break a rule do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from common import noise, sampling, trees
from common.draft_types import Block
from common.types import Mode, SamplingParams
from draft_service.session import Session
from draft_service.sources.base import Guess
from draft_service.sources.growing import Growth
from draft_service.sources.merging import Proposal, merge
from draft_service.sources.standing import Standing
from tests.statistical.drafts import Proposal as Law
from tests.statistical.drafts import adversarial, bad, good
from tests.statistical.reference import Array
from tests.statistical.test_tree_acceptance import SAMPLES, VOCABULARY, overconfident, p_after, p_value
from tests.unit.draft.sessions import opened
from verify_service.acceptance import TargetRows, accept_rejection
from verify_service.drafts.checking import Asked, check_block, sampled_as_declared

COUNT = 5
PARAMS = SamplingParams(temperature=1)
LAWS: dict[str, Law] = {"good": good, "bad": bad, "adversarial": adversarial, "overconfident": overconfident}


def fixed(*paths: Sequence[int], confidences: Sequence[float] = ()) -> Guess:
    """A tree that is there whatever is drawn."""
    token_ids: list[int] = []
    parents: list[int] = []
    for path in paths:
        parent = -1
        for token_id in path:
            known = [i for i, p in enumerate(parents) if p == parent and token_ids[i] == token_id]
            if not known:
                token_ids.append(token_id)
                parents.append(parent)
            parent = known[0] if known else len(token_ids) - 1
    return Guess(tuple(token_ids), confidences=tuple(confidences), parents=tuple(parents))


FIXED = {
    "agreeing": fixed([int(p_after(()).argmax()), 2], [1]),
    "apart": fixed([0, 3], [4, 4]),
    "bushy": fixed([0], [1], [2, 0], [2, 1]),
    "doubtful": fixed([5], [3, 3], confidences=[0.4, 0.2, 0.1]),
}


def drawn(law: Law, seed: int, count: int, width: int) -> tuple[Session, Guess]:
    """What a model with that law for its own draws."""

    def said(path: tuple[int, ...]) -> torch.Tensor:
        return torch.from_numpy(law(p_after(path), sum(path))).log()

    session = opened(
        tokens=[],
        block_size=count,
        tree_width=width,
        sampling=PARAMS,
        mode=Mode.REJECTION,
        noise_seed=noise.draft_seed(seed),
    )
    growth = Growth(session)
    growth.plant(said(()))
    while not growth.finished:
        growth.ask(said)
    return session, growth.guess()


def trusted(successes: int) -> Standing:
    standing = Standing()
    for _ in range(successes):
        standing.judge(Guess((1, 1)), [1, 1])
    return standing


Merge = Callable[[Sequence[Proposal], int, int], Guess]


def outcomes(law: Law, other: Guess, width: int, *, successes: int = 0, merging: Merge = merge) -> Array:
    """How often each pair of tokens came."""
    counts = np.zeros((VOCABULARY, VOCABULARY))
    fixed_guess = other if width > 1 else Guess(other.token_ids[:2])
    standings = trusted(successes), trusted(1)
    for seed in range(SAMPLES // 2):
        session, guess = drawn(law, seed, COUNT, width)
        proposals = [
            Proposal(name, made, standing)
            for name, made, standing in zip(("ngram", "self"), (fixed_guess, guess), standings, strict=True)
        ]
        made = merging(proposals, COUNT, width)
        block = Block(1, 0, made.token_ids, parents=made.parents, distributions=made.distributions)
        if merging is merge:
            block = check_block(block, Asked(COUNT, width, VOCABULARY, Mode.REJECTION))
            assert not block.distributions or sampled_as_declared(block, session.noise_seed)
        counts[verified(block, seed)] += 1
    return counts


def verified(block: Block, seed: int) -> tuple[int, int]:
    tree = block.tree
    paths = [tuple(block.token_ids[n] for n in trees.path(tree, node)) for node in range(-1, len(tree))]
    logits = torch.from_numpy(np.log(np.stack([p_after(path) for path in paths])))
    verdict = accept_rejection(TargetRows(logits, PARAMS, [], 0, block), block, seed)
    tokens = [*(block.token_ids[node] for node in verdict.nodes), verdict.token]
    if len(tokens) == 1:
        tokens.append(sampling.choose(torch.from_numpy(p_after(tuple(tokens))), seed, 1))
    return tokens[0], tokens[1]


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize(
    ("law", "other", "successes"),
    [
        ("good", "agreeing", 4),
        ("bad", "apart", 0),
        ("adversarial", "bushy", 4),
        ("overconfident", "doubtful", 0),
    ],
)
def test_pairs_of_tokens_have_the_targets_distribution(
    law: str, other: str, successes: int, width: int
) -> None:
    assert p_value(outcomes(LAWS[law], FIXED[other], width, successes=successes)) > 0.001


def test_guesses_with_a_q_are_among_them() -> None:
    """Else the tests above would test nothing but certain guesses."""
    mixed = 0
    for seed in range(50):
        _, guess = drawn(good, seed, COUNT, 3)
        proposals = [Proposal("ngram", FIXED["apart"], trusted(1)), Proposal("self", guess, trusted(1))]
        kinds = {len(q.token_ids) > 1 for q in merge(proposals, COUNT, 3).distributions}
        mixed += len(kinds) == 2
    assert mixed > 25


def test_the_chi_square_notices_a_guess_that_declares_a_q_because_another_source_agrees_with_it() -> None:
    """Why the best are chosen before they are merged."""

    def mutant(proposals: Sequence[Proposal], count: int, width: int) -> Guess:
        look_up, model = proposals
        agreed = [
            node
            for node, parent in enumerate(model.guess.parents)
            if parent < 0 and model.guess.token_ids[node] in look_up.guess.token_ids
        ][:1]
        return Guess(
            tuple(model.guess.token_ids[node] for node in agreed),
            tuple(model.guess.distributions[node] for node in agreed),
            parents=(-1,) * len(agreed),
        )

    assert p_value(outcomes(bad, FIXED["bushy"], 3, merging=mutant)) < 1e-6


def test_the_chi_square_notices_a_model_that_is_taken_only_where_it_is_sure() -> None:
    """Why a chain with q's is chosen by its standing: its confidences say what was drawn."""

    usual = float(np.median([drawn(bad, seed, COUNT, 1)[1].confidences[1] for seed in range(100)]))

    def mutant(proposals: Sequence[Proposal], count: int, width: int) -> Guess:
        look_up, model = proposals
        sure = model.guess.confidences[1] > usual
        return merge([model if sure else look_up], count, width)

    assert p_value(outcomes(bad, FIXED["apart"], 1, merging=mutant)) < 1e-6
