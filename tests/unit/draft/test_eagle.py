"""The feature head in the draft service proposes what it would have proposed in training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from common.states import StateTail
from common.types import Mode, SamplingParams
from draft_service.heads.shape import Shape
from draft_service.session import Session
from draft_service.sources.base import Guess
from draft_service.sources.eagle import EagleSource
from tests.support.heads import HIDDEN, VOCABULARY, tiny_head, tiny_parts, tiny_running, tiny_shape
from tests.support.models import tiny_model
from tests.unit.draft.sessions import opened
from training.rollout import roll_out
from training.windows import Batch

LAYERS = (1, 2)
TEXT = [5, 9, 3, 40, 7, 7, 22, 13, 2, 30, 41, 6, 19, 8, 33, 4]
WARM = SamplingParams(temperature=0.8)


@pytest.fixture(scope="module")
def target() -> Any:
    return tiny_model(6, attention="sdpa")


@pytest.fixture(params=[64, 5], ids=["all is seen", "a window of five"])
def shape(request: pytest.FixtureRequest) -> Shape:
    return tiny_shape(layers=LAYERS, window=request.param)


@pytest.fixture
def source(target: Any, shape: Shape) -> EagleSource:
    return EagleSource(tiny_running(target, shape))


def states_of(target: Any, tokens: list[int], layers: tuple[int, ...] = LAYERS) -> Tensor:
    """[tokens, layers * hidden] of one whole pass."""
    found = target(torch.tensor([tokens]), output_hidden_states=True).hidden_states
    return torch.cat([found[layer][0] for layer in layers], -1).bfloat16()


def session_of(
    target: Any, tokens: list[int], start: int = 0, layers: tuple[int, ...] = LAYERS, **options: Any
) -> Session:
    """With the states of positions from ``start`` on."""
    session = opened(tokens=tokens, **options)
    session.states, session.hidden_layers = StateTail(len(layers) * HIDDEN), layers
    session.states.put(start, states_of(target, tokens, layers)[start:-1])
    return session


def go_on(target: Any, session: Session, tokens: list[int]) -> None:
    """The target commits ``tokens``, and sends the states that are new."""
    assert session.states is not None
    session.tokens += tokens
    end = session.states.end
    session.states.put(end, states_of(target, session.tokens)[end:-1])


def guess(source: EagleSource, session: Session) -> Guess:
    (made,) = source.propose([session])
    assert made is not None
    return made


def as_trained(target: Any, shape: Shape, session: Session, start: int = 0) -> list[int]:
    """The greedy chain, each guess from the training rollout over the text and the guesses so far."""
    head, parts = tiny_head(shape), tiny_parts(target)
    head.norm.copy_(parts.norm)
    tokens, length = session.tokens[start:], session.block_size
    hidden = states_of(target, session.tokens)[start:-1]
    chain: list[int] = []
    for step in range(length):
        text = [*tokens, *chain, *[0] * (length - step)]
        filled = torch.zeros(1, len(text), hidden.shape[1])
        filled[0, : len(hidden)] = hidden
        nothing = torch.zeros(1, len(text))
        batch = Batch(torch.tensor([text]), filled, nothing.long(), nothing, nothing, nothing)
        made = roll_out(head, parts, batch, step + 1)[step][0, len(tokens) - 2]
        chain.append(int((made @ parts.head.T).argmax()))
    return chain


def test_a_greedy_chain_is_that_of_the_training_rollout(
    target: Any, shape: Shape, source: EagleSource
) -> None:
    for length in (2, 3, 9, len(TEXT)):
        session = session_of(target, TEXT[:length], block_size=4)
        assert list(guess(source, session).token_ids) == as_trained(target, shape, session)
        source.close("s")


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("sampling", [SamplingParams(temperature=0), WARM], ids=["greedy", "warm"])
@pytest.mark.parametrize("mode", Mode)
def test_after_any_commit_the_guesses_are_those_of_a_fresh_session(
    *, target: Any, shape: Shape, source: EagleSource, mode: Mode, sampling: SamplingParams, width: int
) -> None:
    options: dict[str, Any] = {"mode": mode, "sampling": sampling, "tree_width": width, "block_size": 6}
    session = session_of(target, TEXT[:6], **options)
    for count in (1, 3, 1, 4):
        guess(source, session)
        go_on(target, session, TEXT[len(session.tokens) :][:count])
        fresh = EagleSource(tiny_running(target, shape))
        expected = guess(fresh, session_of(target, session.tokens, **options))
        made = guess(source, session)
        assert (made.token_ids, made.parents) == (expected.token_ids, expected.parents)
        assert made.confidences == pytest.approx(expected.confidences, rel=1e-3)


def test_sessions_in_one_batch_get_what_they_get_alone(target: Any, source: EagleSource) -> None:
    sessions = [
        session_of(target, TEXT[:length], session_id=str(length), block_size=4, tree_width=width)
        for length, width in ((3, 1), (9, 2), (14, 1))
    ]
    alone = [guess(source, session) for session in sessions]
    for session in sessions:
        source.close(session.session_id)
    together = source.propose(sessions)
    assert [made.token_ids for made in together if made] == [made.token_ids for made in alone]


def test_a_branch_of_a_tree_is_what_a_chain_along_it_would_be(target: Any, source: EagleSource) -> None:
    """The likeliest token after a branch depends on that branch alone."""
    tree = guess(source, session_of(target, TEXT[:8], block_size=12, tree_width=3))
    chain = guess(EagleSource(source._running), session_of(target, TEXT[:8], block_size=2))
    first = tree.token_ids.index(chain.token_ids[0])
    followers = [token for token, parent in zip(tree.token_ids, tree.parents, strict=True) if parent == first]
    assert followers[0] == chain.token_ids[1]


def test_a_session_whose_prompt_was_cached_begins_where_its_states_do(
    target: Any, shape: Shape, source: EagleSource
) -> None:
    session = session_of(target, TEXT[:10], start=7, block_size=4)
    assert list(guess(source, session).token_ids) == as_trained(target, shape, session, start=7)


def test_without_the_latest_states_nothing_is_guessed(target: Any, source: EagleSource) -> None:
    assert guess(source, opened(tokens=TEXT[:5])) == Guess()
    late = session_of(target, TEXT[:5], block_size=4)
    late.tokens += TEXT[5:7]
    assert guess(source, late) == Guess()
    late = session_of(target, TEXT[:7], start=6, block_size=4)
    assert guess(source, late) == Guess()


def test_after_a_gap_in_the_states_it_goes_on_from_there(target: Any, source: EagleSource) -> None:
    session = session_of(target, TEXT[:5], block_size=4)
    guess(source, session)
    session.tokens += TEXT[5:10]
    assert session.states is not None
    session.states.put(7, states_of(target, session.tokens)[7:-1])
    fresh = EagleSource(source._running)
    assert guess(source, session) == guess(fresh, session_of(target, TEXT[:10], start=7, block_size=4))


def test_states_of_more_layers_than_it_reads_serve_as_well(target: Any, source: EagleSource) -> None:
    usual = guess(source, session_of(target, TEXT[:9], block_size=4))
    more = session_of(target, TEXT[:9], layers=(0, 1, 2), session_id="more", block_size=4)
    assert guess(source, more) == usual


def test_only_tokens_of_its_vocabulary_are_guessed_and_q_is_what_they_were_drawn_from(
    target: Any, source: EagleSource
) -> None:
    session = session_of(target, TEXT, block_size=6, mode=Mode.REJECTION, sampling=WARM)
    made = guess(source, session)
    assert len(made.distributions) == 6
    for token, q in zip(made.token_ids, made.distributions, strict=True):
        assert token in q.token_ids
        assert max(q.token_ids) < VOCABULARY


def test_a_session_of_many_windows_lets_old_rows_go_and_guesses_on(target: Any) -> None:
    narrow = tiny_shape(layers=LAYERS, window=5)
    source = EagleSource(tiny_running(target, narrow))
    session = session_of(target, TEXT[:4], block_size=4)
    for _ in range(4 * 5 + 6):
        guess(source, session)
        go_on(target, session, [(7 * len(session.tokens)) % VOCABULARY])
    fresh = EagleSource(tiny_running(target, narrow))
    expected = guess(fresh, session_of(target, session.tokens, block_size=4))
    assert guess(source, session).token_ids == expected.token_ids


def test_sessions_that_wait_for_nothing_make_room_and_are_made_anew(target: Any, shape: Shape) -> None:
    roomy, tight = (EagleSource(tiny_running(target, shape), blocks) for blocks in (64, 2))
    sessions = [session_of(target, TEXT[:9], session_id="a"), session_of(target, TEXT[4:], session_id="b")]
    for _ in range(2):
        for session in sessions:
            assert guess(tight, session) == guess(roomy, session)


def test_a_session_for_which_there_is_no_room_gets_nothing_until_there_is(target: Any) -> None:
    source = EagleSource(tiny_running(target, tiny_shape(layers=LAYERS)), 2)
    one, other = (session_of(target, TEXT, session_id=name, block_size=4) for name in "ab")
    first, second = source.propose([one, other])
    assert first and first.token_ids and second == Guess()
    source.close("a")
    assert guess(source, other).token_ids == first.token_ids
