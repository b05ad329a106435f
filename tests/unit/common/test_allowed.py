"""What a grammar and a minimum length leave of the vocabulary, at every place ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from common.allowed import FOR_EVER, Allowed
from tests.support.grammars import regex_matcher
from tests.support.scripted import EOS, CharTokenizer

TOKENIZER = CharTokenizer("abc.")
A, B, C, DOT = TOKENIZER.ids(*"abc.")
PROMPT = [C, C, C]


def made(held: Mapping[int, int], regex: str | None = None, output: Sequence[int] = ()) -> Allowed:
    grammar = regex_matcher(TOKENIZER, regex) if regex else None
    allowed = Allowed(len(TOKENIZER), held, grammar)
    allowed.follow([*PROMPT, *output], len(PROMPT))
    return allowed


def ids(allowed: Allowed, path: Sequence[int] = ()) -> set[int]:
    mask = allowed.mask_after(path)
    return set(range(len(TOKENIZER))) if mask is None else set(torch.nonzero(mask).flatten().tolist())


def test_a_held_token_may_come_once_enough_others_have_come() -> None:
    held = {EOS: 3, DOT: 1}
    for output in ([], [A], [A, B]):
        allowed = made(held, output=output)
        for path in ([], [A], [A, B], [A, B, C], [A, B, C, A]):
            length = len(output) + len(path)
            expected = {A, B, C} | ({DOT} if length >= 1 else set()) | ({EOS} if length >= 3 else set())
            assert ids(allowed, path) == expected


def test_nothing_is_masked_where_nothing_is_held_any_more() -> None:
    allowed = made({EOS: 2})
    assert allowed.mask_after([A]) is not None
    assert allowed.mask_after([A, B]) is None


def test_following_the_same_tokens_again_changes_nothing() -> None:
    allowed = made({EOS: 2}, "a*b")
    tokens = [*PROMPT, A]
    for _ in range(3):
        allowed.follow(tokens, len(PROMPT))
    assert ids(allowed) == {A, B}
    assert ids(allowed, [B]) == {EOS}


def test_the_grammar_and_the_minimum_length_hold_together() -> None:
    allowed = made({EOS: 3}, "a*")
    assert ids(allowed, [A, A]) == {A}
    assert ids(allowed, [A, A, A]) == {A, EOS}


def test_a_grammar_that_leaves_only_held_tokens_ends_the_answer_all_the_same() -> None:
    allowed = made({EOS: FOR_EVER}, "ab?")
    assert ids(allowed, [A]) == {B}
    assert ids(allowed, [A, B]) == {EOS}


def test_guesses_may_stand_up_to_the_first_that_is_held_or_forbidden() -> None:
    assert made({EOS: 2}).allowed_length([A, EOS, B]) == 1
    assert made({EOS: 2}, output=[A]).allowed_length([A, EOS, B]) == 3
    assert made({}, "ab+").allowed_length([A, B, B, C]) == 3
    assert made({EOS: 3}, "ab*").allowed_length([A, EOS]) == 1
    assert made({}).allowed_length([A, B]) == 2
