"""Trees of the self source: the guesses worth the most of all the model would make."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common import sampling, trees
from common.draft_types import Block
from common.types import Mode, SamplingParams
from draft_service.session import Session
from draft_service.sources.base import Guess
from draft_service.sources.paged import PagedSource
from tests.unit.common.noise_reference import exponential
from tests.unit.draft.paged import PagedRunner, logits_after
from tests.unit.draft.sessions import commitment, opened
from verify_service.drafts.checking import Asked, check_block, sampled_as_declared

NUM_BLOCKS = 32
WARM = SamplingParams(temperature=0.8, top_p=0.9)
GREEDY = SamplingParams(temperature=0)


def paged_source(prefill_tokens: int = 64) -> tuple[PagedSource, PagedRunner]:
    runner = PagedRunner(NUM_BLOCKS)
    return PagedSource("self", runner, NUM_BLOCKS, prefill_tokens, model_version="v"), runner


def guess(source: PagedSource, session: Session) -> Guess:
    (made,) = source.propose([session])
    assert made is not None
    return made


def branch(made: Guess, node: int) -> list[int]:
    return [made.token_ids[step] for step in trees.path(made.parents, node)]


def shape(made: Guess) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return made.token_ids, made.parents


def beliefs(session: Session, path: Sequence[int]) -> dict[int, float]:
    """Of each token to be the target's choice after ``path``."""
    logits = logits_after([*session.tokens, *path])[None]
    adjusted = sampling.adjust(logits, session.sampling, session.tokens, session.prompt_length, [path])
    if session.sampling.greedy:
        return dict(enumerate(adjusted.softmax(-1)[0].tolist()))
    probs = sampling.probabilities(adjusted, session.sampling)[0].tolist()
    position = len(session.tokens) + len(path)
    race = {token: p / exponential(session.noise_seed, position, token) for token, p in enumerate(probs)}
    total = sum(race.values())
    return {token: score / total for token, score in race.items()}


def best_of_all(session: Session, levels: int) -> list[float]:
    """The highest products of beliefs, from every branch of up to ``levels`` guesses."""
    found: list[float] = []
    frontier: list[tuple[float, tuple[int, ...]]] = [(1.0, ())]
    for _ in range(levels):
        grown = []
        for worth, path in frontier:
            ranked = sorted(beliefs(session, path).items(), key=lambda item: -item[1])[: session.tree_width]
            grown += [(worth * belief, (*path, token)) for token, belief in ranked]
        found += [worth for worth, _ in grown]
        frontier = sorted(grown, reverse=True)[: session.block_size]
    return sorted(found, reverse=True)[: session.block_size]


@pytest.mark.parametrize("sampling_params", [GREEDY, WARM])
@pytest.mark.parametrize(("width", "count"), [(2, 3), (3, 6), (8, 8)])
def test_the_guesses_are_those_worth_the_most_of_all_there_could_be(
    sampling_params: SamplingParams, width: int, count: int
) -> None:
    source, _ = paged_source()
    for start in range(6):
        session = opened(
            str(start),
            [start, 2, 3],
            block_size=count,
            tree_width=width,
            sampling=sampling_params,
            noise_seed=9,
        )
        made = guess(source, session)
        assert list(made.confidences) == pytest.approx(best_of_all(session, levels=count))
        for node, token in enumerate(made.token_ids):
            path = branch(made, node)
            assert path[-1] == token
            worth = 1.0
            for end in range(len(path)):
                worth *= beliefs(session, path[:end])[path[end]]
            assert made.confidences[node] == pytest.approx(worth)


def test_the_first_branch_of_a_greedy_tree_begins_as_the_chain_does() -> None:
    source, _ = paged_source()
    chain = guess(source, opened("chain", [1, 2, 3], block_size=8))
    tree = guess(source, opened("tree", [1, 2, 3], block_size=8, tree_width=3))
    firsts = [0]
    while following := trees.children(tree.parents)[firsts[-1] + 1]:
        firsts.append(following[0])
    assert [tree.token_ids[node] for node in firsts] == list(chain.token_ids[: len(firsts)])


def test_keyed_siblings_are_the_best_under_the_targets_noise_the_choice_first() -> None:
    source, _ = paged_source()
    session = opened(tokens=[1, 2, 3], sampling=WARM, noise_seed=77, block_size=3, tree_width=3)
    made = guess(source, session)
    siblings = [made.token_ids[node] for node in trees.children(made.parents)[0]]
    ranked = sorted(beliefs(session, ()).items(), key=lambda item: -item[1])
    assert siblings == [token for token, _ in ranked[: len(siblings)]]
    probs = sampling.probabilities(logits_after([1, 2, 3])[None].double(), WARM)[0]
    assert siblings[0] == sampling.choose(probs, 77, 3)
    assert made.distributions == ()


@given(st.integers(0, 2**32), st.integers(1, 16), st.integers(2, 8), st.sampled_from(Mode), st.booleans())
@settings(max_examples=60)
def test_every_tree_is_one_the_verify_service_takes_as_honest(
    seed: int, count: int, width: int, mode: Mode, greedy: bool
) -> None:
    chance = random.Random(seed)
    source, _ = paged_source()
    session = opened(
        tokens=[chance.randrange(100) for _ in range(chance.randint(1, 20))],
        block_size=count,
        tree_width=width,
        sampling=GREEDY if greedy else SamplingParams(top_k=chance.choice([0, 1, 2, 5])),
        mode=mode,
        noise_seed=seed,
    )
    made = guess(source, session)
    block = Block(1, len(session.tokens), made.token_ids, made.parents, distributions=made.distributions)
    checked = check_block(block, Asked(count, width, 100, mode))
    assert len(checked.token_ids) <= count
    if mode is Mode.REJECTION and not greedy:
        assert len(made.distributions) == len(made.token_ids)
        assert sampled_as_declared(checked, seed)


def test_under_rejection_whether_a_guess_is_made_does_not_depend_on_what_it_would_be() -> None:
    """Of two trees the first guess that differs differs in its token alone, not in place or worth."""
    source, _ = paged_source()

    def made_with(seed: int) -> Guess:
        session = opened(
            f"{seed}",
            [1, 2, 3],
            block_size=8,
            tree_width=3,
            mode=Mode.REJECTION,
            sampling=WARM,
            noise_seed=seed,
        )
        return guess(source, session)

    firsts = [made_with(seed) for seed in range(200)]
    assert len({made.token_ids[0] for made in firsts}) > 1
    assert len({made.confidences[0] for made in firsts}) == 1
    for one, other in itertools.pairwise(firsts):
        pairs = zip(zip(*shape(one), strict=True), zip(*shape(other), strict=True), strict=True)
        differing = next((node for node, (a, b) in enumerate(pairs) if a != b), None)
        if differing is not None:
            assert one.parents[differing] == other.parents[differing]
            assert one.confidences[differing] == pytest.approx(other.confidences[differing])


@pytest.mark.parametrize("mode", Mode)
@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(2, 4), st.integers(1, 8))
def test_after_any_branch_was_taken_the_guesses_are_those_of_a_fresh_session(
    mode: Mode, seed: int, width: int, count: int
) -> None:
    chance = random.Random(seed)
    source, _ = paged_source()
    prompt = [chance.randrange(100) for _ in range(chance.randint(1, 30))]
    session = opened(
        tokens=prompt, sampling=WARM, mode=mode, noise_seed=3, block_size=count, tree_width=width
    )
    for _ in range(4):
        made = guess(source, session)
        session.remember(1, made.token_ids, made.parents)
        nodes = trees.path(made.parents, chance.randint(-1, len(made.token_ids) - 1))
        session.commit(
            commitment(
                base_length=len(session.tokens),
                block_id=1,
                accepted=nodes,
                tokens=[chance.randrange(100)],
                block_size=count,
            )
        )
    fresh = opened(
        "fresh",
        session.tokens,
        prompt_length=len(prompt),
        sampling=WARM,
        mode=mode,
        noise_seed=3,
        block_size=count,
        tree_width=width,
    )
    other, _ = paged_source()
    assert guess(source, session) == guess(other, fresh)


def test_a_branch_down_the_first_slots_is_not_run_again() -> None:
    source, runner = paged_source()
    session = opened(tokens=range(20), block_size=6, tree_width=2)
    made = guess(source, session)
    session.remember(1, made.token_ids, made.parents)
    trunk = next(n for n, parent in enumerate((*made.parents, -2)) if parent != n - 1)
    assert trunk > 0
    session.commit(
        commitment(base_length=20, block_id=1, accepted=trees.path(made.parents, trunk - 1), tokens=[99])
    )
    runner.ran.clear()
    guess(source, session)
    assert runner.ran[0] == [1]


def test_trees_and_chains_of_many_sessions_share_passes_no_more_than_guesses() -> None:
    source, runner = paged_source()
    sessions = [
        opened("tree", [1, 2, 3], block_size=8, tree_width=4),
        opened("chain", [4], block_size=3),
        opened("bush", [5, 6], block_size=4, tree_width=8),
    ]
    alone = [guess(paged_source()[0], session) for session in sessions]
    assert source.propose(sessions) == alone
    assert len(runner.ran) <= 8
    assert runner.ran[0] == [3, 1, 2]
