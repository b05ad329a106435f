"""Self-speculation proposes what the shortened target itself would say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from common import sampling
from common.model import store
from common.model.runner import ModelRunner
from common.types import Mode, SamplingParams
from draft_service.session import Session
from draft_service.sources.base import Guess
from draft_service.sources.paged import PagedSource
from tests.support.models import reference_greedy, save_tiny, tiny_model
from tests.unit.draft.paged import VOCABULARY, PagedRunner, logits_after
from tests.unit.draft.sessions import commitment, opened

NUM_BLOCKS = 32
WARM = SamplingParams(temperature=0.8, top_p=0.9)
PROMPTS = [[2], [5, 6, 7], list(range(2, 42)), [9] * 20]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny", seed=4, layers=3)


@pytest.fixture(scope="module")
def runner(folder: str) -> ModelRunner:
    return ModelRunner(store.load_model(folder, torch.float32, "cpu", layers=2), NUM_BLOCKS)


@pytest.fixture(scope="module")
def truncated() -> Any:
    """The same layers, never seen by our code."""
    model = tiny_model(4, attention="sdpa", layers=3)
    model.model.layers = model.model.layers[:2]
    return model


@pytest.fixture
def source(runner: ModelRunner) -> PagedSource:
    return PagedSource("self", runner, NUM_BLOCKS, prefill_tokens=64, model_version="v")


def paged_source(prefill_tokens: int = 64, num_blocks: int = NUM_BLOCKS) -> tuple[PagedSource, PagedRunner]:
    runner = PagedRunner(num_blocks)
    return PagedSource("self", runner, num_blocks, prefill_tokens, model_version="v"), runner


def guess(source: PagedSource, session: Session) -> Guess:
    (made,) = source.propose([session])
    assert made is not None
    return made


def expected_tokens(session: Session) -> list[int]:
    """Chosen one at a time from the paged runner's logits, each guess a token like any other."""
    tokens = list(session.tokens)
    for _ in range(session.block_size):
        logits = logits_after(tokens)[None]
        adjusted = sampling.adjust(logits, session.sampling, tokens, session.prompt_length, [[]])
        probs = sampling.probabilities(adjusted, session.sampling)[0]
        if session.mode is Mode.KEYED:
            tokens.append(sampling.choose(probs, session.noise_seed, len(tokens)))
        else:
            q = sampling.draft_distribution(probs)
            tokens.append(sampling.choose_sparse(q, session.noise_seed, len(tokens)))
    return tokens[len(session.tokens) :]


@pytest.mark.parametrize("mode", Mode)
def test_greedy_guesses_are_the_shortened_models_own_greedy_continuation(
    source: PagedSource, truncated: Any, mode: Mode
) -> None:
    sessions = [
        opened(str(index), prompt, block_size=index + 2, mode=mode) for index, prompt in enumerate(PROMPTS)
    ]
    for session, made in zip(sessions, source.propose(sessions), strict=True):
        assert made is not None
        assert list(made.token_ids) == reference_greedy(truncated, session.tokens, session.block_size)


def test_greedy_guesses_stay_the_models_own_as_blocks_are_taken_in_part(
    source: PagedSource, truncated: Any
) -> None:
    sessions = [opened(str(index), prompt) for index, prompt in enumerate(PROMPTS)]
    for round_number in range(4):
        for index, (session, made) in enumerate(zip(sessions, source.propose(sessions), strict=True)):
            assert made is not None
            assert list(made.token_ids) == reference_greedy(truncated, session.tokens, 4)
            session.remember(1, made.token_ids)
            accepted = (index + round_number) % 5
            base = len(session.tokens)
            session.commit(commitment(base_length=base, block_id=1, accepted=accepted, tokens=[index]))


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 4), st.lists(st.integers(0, 99), max_size=3)), min_size=1, max_size=4),
    st.sampled_from(Mode),
)
def test_after_any_acceptance_the_guesses_are_those_of_a_fresh_session(
    prompt: list[int], commits: list[tuple[int, list[int]]], mode: Mode
) -> None:
    source, _ = paged_source()
    session = opened(tokens=prompt, sampling=WARM, mode=mode, noise_seed=3)
    for accepted, tokens in commits:
        session.remember(1, guess(source, session).token_ids)
        base = len(session.tokens)
        session.commit(commitment(base_length=base, block_id=1, accepted=accepted, tokens=tokens))
    fresh = opened("fresh", session.tokens, prompt_length=len(prompt), sampling=WARM, mode=mode, noise_seed=3)
    other, _ = paged_source()
    assert guess(source, session) == guess(other, fresh)


@pytest.mark.parametrize(("accepted", "run_again"), [(0, 1), (2, 1), (3, 1), (4, 2)])
def test_only_what_the_cache_does_not_hold_is_run_again(accepted: int, run_again: int) -> None:
    """Of 4 guesses the last one was never run, so taking all of them leaves it and the bonus token."""
    source, runner = paged_source()
    session = opened(tokens=range(20))
    session.remember(1, guess(source, session).token_ids)
    session.commit(commitment(base_length=20, block_id=1, accepted=accepted, tokens=[99]))
    runner.ran.clear()
    guess(source, session)
    assert runner.ran == [[run_again], [1], [1], [1]]


def test_sessions_that_wait_advance_together_one_pass_per_guess() -> None:
    source, runner = paged_source()
    source.propose(
        [opened("a", [1, 2, 3], block_size=3), opened("b", [4], block_size=1), opened("c", [5, 6])]
    )
    assert runner.ran == [[3, 1, 2], [1, 1], [1, 1], [1]]


def test_a_long_prompt_is_taken_in_chunks_and_is_not_ready_until_the_last() -> None:
    source, runner = paged_source(prefill_tokens=16)
    session = opened(tokens=range(40), block_size=2)
    assert [source.propose([session])[0] for _ in range(2)] == [None, None]
    assert list(guess(source, session).token_ids) == expected_tokens(session)
    assert runner.ran == [[16], [16], [8], [1]]


@pytest.mark.parametrize("length", [15, 16, 17, 32])
def test_a_prompt_that_just_fits_a_chunk_needs_no_further_round(length: int) -> None:
    source, _ = paged_source(prefill_tokens=16)
    session = opened(tokens=range(length))
    rounds = 1
    while source.propose([session]) == [None]:
        rounds += 1
    assert rounds == -(-length // 16)


def test_a_long_prompt_does_not_hold_up_its_neighbours() -> None:
    source, _ = paged_source(prefill_tokens=16)
    long, short = opened("long", range(40)), opened("short", [1, 2])
    first, second = source.propose([long, short])
    assert first is None
    assert second is not None
    assert list(second.token_ids) == expected_tokens(short)


def test_keyed_guesses_are_chosen_under_the_targets_noise_and_declare_nothing() -> None:
    source, _ = paged_source()
    session = opened(tokens=[1, 2, 3], sampling=WARM, mode=Mode.KEYED, noise_seed=77, block_size=6)
    made = guess(source, session)
    assert list(made.token_ids) == expected_tokens(session)
    assert made.distributions == ()


def test_rejection_guesses_are_samples_of_the_distributions_they_declare() -> None:
    source, _ = paged_source()
    session = opened(
        tokens=[1, 2, 3], sampling=SamplingParams(), mode=Mode.REJECTION, noise_seed=5, block_size=8
    )
    made = guess(source, session)
    assert len(made.distributions) == len(made.token_ids) == 8
    for position, (token_id, q) in enumerate(zip(made.token_ids, made.distributions, strict=True), 3):
        assert len(q.token_ids) <= sampling.MAX_SUPPORT < VOCABULARY
        assert sum(q.probabilities) == pytest.approx(1, abs=1e-5)
        assert sampling.choose_sparse(q, 5, position) == token_id


def test_the_distributions_declared_are_those_of_the_model_under_the_sessions_parameters() -> None:
    source, _ = paged_source()
    params = SamplingParams(temperature=0.5, top_k=7, logit_bias={3: 5.0})
    session = opened(tokens=[1, 2, 3], sampling=params, mode=Mode.REJECTION, block_size=1)
    adjusted = sampling.adjust(logits_after([1, 2, 3])[None], params, [1, 2, 3], 3, [[]])
    expected = sampling.draft_distribution(sampling.probabilities(adjusted, params)[0])
    assert guess(source, session).distributions == (expected,)


@pytest.mark.parametrize("mode", Mode)
def test_guesses_are_penalised_for_prompt_output_and_earlier_guesses(mode: Mode) -> None:
    source, _ = paged_source()
    params = SamplingParams(
        temperature=0.1, repetition_penalty=1.1, frequency_penalty=2, presence_penalty=1, logit_bias={3: 12}
    )
    session = opened(tokens=[1, 2, 3, 3], prompt_length=2, sampling=params, mode=mode, block_size=8)
    guesses = list(guess(source, session).token_ids)
    assert guesses == expected_tokens(session)
    assert guesses[0] == 3
    assert guesses.count(3) < 8


def test_greedy_confidences_are_the_probabilities_the_model_gives_to_the_guesses_so_far() -> None:
    source, _ = paged_source()
    made = guess(source, opened(tokens=[1, 2, 3], block_size=2))
    first = logits_after([1, 2, 3]).double().softmax(-1).max()
    second = logits_after([1, 2, 3, made.token_ids[0]]).double().softmax(-1).max()
    assert made.confidences == pytest.approx((float(first), float(first * second)))


@pytest.mark.parametrize("mode", Mode)
def test_confidences_lie_between_0_and_1_and_fall_along_a_branch(mode: Mode) -> None:
    source, _ = paged_source()
    made = guess(source, opened(tokens=[1, 2, 3], sampling=WARM, mode=mode, block_size=6))
    assert sorted(made.confidences, reverse=True) == list(made.confidences)
    assert 0 < made.confidences[-1] <= made.confidences[0] < 1


def test_a_session_closed_and_opened_again_starts_over() -> None:
    source, _ = paged_source()
    guess(source, opened(tokens=range(30)))
    source.close("s")
    session = opened(tokens=[7, 8])
    assert list(guess(source, session).token_ids) == expected_tokens(session)


def test_a_model_cut_and_saved_by_itself_guesses_alike(tmp_path: Path, runner: ModelRunner) -> None:
    """The source runs any causal model over the same vocabulary."""
    model = tiny_model(4, layers=3)
    model.model.layers = model.model.layers[:2]
    other = PagedSource("self", ModelRunner(model, NUM_BLOCKS), NUM_BLOCKS, 64, "v")
    ours = PagedSource("self", runner, NUM_BLOCKS, 64, "v")
    assert guess(other, opened(tokens=[3, 4])).token_ids == guess(ours, opened(tokens=[3, 4])).token_ids
