"""When the KV pool is too small: who is evicted, and that nothing but guesses is lost."""

from __future__ import annotations

import random

import pytest

from common.model.block_manager import BLOCK_SIZE
from draft_service.session import Session
from draft_service.sources.base import NOTHING
from draft_service.sources.paged import PagedSource
from tests.unit.draft.paged import PagedRunner, logits_after
from tests.unit.draft.sessions import commitment, opened

ONE_BLOCK = BLOCK_SIZE - 4


def pool(num_blocks: int, prefill_tokens: int = 1000) -> tuple[PagedSource, PagedRunner]:
    runner = PagedRunner(num_blocks)
    return PagedSource("self", runner, num_blocks, prefill_tokens, "v"), runner


def greedy(session: Session) -> tuple[int, ...]:
    tokens = list(session.tokens)
    for _ in range(session.block_size):
        tokens.append(int(logits_after(tokens).argmax()))
    return tuple(tokens[len(session.tokens) :])


def prefilled(source: PagedSource, runner: PagedRunner, session: Session) -> int:
    """How many tokens had to be run before the session's first guess."""
    runner.ran.clear()
    source.propose([session])
    return runner.ran[0][0]


def test_the_session_unused_for_longest_makes_room() -> None:
    source, runner = pool(num_blocks=3)
    a, b, c, d = (opened(name, range(ONE_BLOCK)) for name in "abcd")
    for session in (a, b, c, a, d):
        source.propose([session])
    assert prefilled(source, runner, a) == 1
    assert prefilled(source, runner, c) == 1
    assert prefilled(source, runner, b) == ONE_BLOCK


def test_no_more_sessions_are_evicted_than_must_be() -> None:
    source, runner = pool(num_blocks=4)
    a, b, c = (opened(name, range(ONE_BLOCK)) for name in "abc")
    large = opened("large", range(BLOCK_SIZE + ONE_BLOCK))
    for session in (a, b, c, large):
        source.propose([session])
    assert prefilled(source, runner, b) == prefilled(source, runner, c) == 1


def test_an_evicted_session_guesses_as_before_when_it_returns() -> None:
    source, _ = pool(num_blocks=1)
    a, b = opened("a", range(ONE_BLOCK)), opened("b", range(5))
    for session in (a, b, a, b):
        (made,) = source.propose([session])
        assert made is not None
        assert made.token_ids == greedy(session)


def test_a_session_that_waits_is_never_evicted_for_another_that_waits() -> None:
    source, _ = pool(num_blocks=2)
    a, b, c = (opened(name, range(ONE_BLOCK)) for name in "abc")
    first, second, third = source.propose([a, b, c])
    assert first is not None
    assert second is not None
    assert (first.token_ids, second.token_ids, third) == (greedy(a), greedy(b), NOTHING)


def test_a_session_turned_away_is_served_when_there_is_room_again() -> None:
    source, _ = pool(num_blocks=1)
    a, b = opened("a", range(ONE_BLOCK)), opened("b", range(5))
    assert source.propose([a, b])[1] == NOTHING
    source.close("a")
    (made,) = source.propose([b])
    assert made is not None
    assert made.token_ids == greedy(b)


def test_a_session_larger_than_the_pool_gets_no_guesses_and_others_still_do() -> None:
    source, _ = pool(num_blocks=2)
    large, small = opened("large", range(3 * BLOCK_SIZE)), opened("small", [1, 2])
    first, second = source.propose([large, small])
    assert first == NOTHING
    assert second is not None
    assert second.token_ids == greedy(small)


def test_a_session_that_outgrows_the_pool_gets_no_more_guesses() -> None:
    source, _ = pool(num_blocks=1)
    session = opened(tokens=range(ONE_BLOCK))
    source.propose([session])
    session.commit(commitment(base_length=ONE_BLOCK, tokens=[1]))
    assert source.propose([session]) == [NOTHING]


def test_long_prompts_that_together_exceed_the_pool_do_not_wait_for_each_other_for_ever() -> None:
    source, _ = pool(num_blocks=4, prefill_tokens=BLOCK_SIZE)
    sessions = [opened(name, range(3 * BLOCK_SIZE)) for name in "ab"]
    for _ in range(10):
        waiting = [s for s, made in zip(sessions, source.propose(sessions), strict=True) if made is None]
        if not waiting:
            return
        sessions = waiting
    raise AssertionError("still not ready")


def test_closing_sessions_gives_all_their_blocks_back() -> None:
    source, _ = pool(num_blocks=4)
    for name in "abcd":
        source.propose([opened(name, range(ONE_BLOCK))])
    for name in "abcd":
        source.close(name)
    large = opened("large", range(4 * BLOCK_SIZE - 4))
    (made,) = source.propose([large])
    assert made is not None
    assert made.token_ids == greedy(large)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_a_guess_is_right_or_missing(seed: int) -> None:
    chance = random.Random(seed)
    source, _ = pool(num_blocks=chance.randint(1, 6), prefill_tokens=chance.choice([16, 24, 100]))
    sessions: dict[str, Session] = {}
    for step in range(40):
        if len(sessions) < 4 or chance.random() < 0.3:
            name = str(step)
            sessions[name] = opened(name, [chance.randrange(100) for _ in range(chance.randint(1, 60))])
        if chance.random() < 0.2:
            closed = chance.choice(list(sessions))
            del sessions[closed]
            source.close(closed)
        waiting = chance.sample(list(sessions.values()), chance.randint(0, len(sessions)))
        for session, made in zip(waiting, source.propose(waiting), strict=True):
            if made is None:
                continue
            assert made.token_ids in {(), greedy(session)}
            _commit_some(session, made.token_ids, chance)


def _commit_some(session: Session, guesses: tuple[int, ...], chance: random.Random) -> None:
    session.remember(1, guesses)
    accepted, tokens = chance.randint(0, len(guesses)), [chance.randrange(100)]
    base, block_size = len(session.tokens), chance.randint(1, 8)
    session.commit(
        commitment(base_length=base, block_id=1, accepted=accepted, tokens=tokens, block_size=block_size)
    )
