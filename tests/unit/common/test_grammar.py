"""A matcher says at every place what may come, however far ahead it has looked before."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common import grammar
from common.constraint import LARGEST_CONSTRAINT_BYTES, Constraint, ConstraintKind
from common.errors import InvalidRequest
from common.grammar import lower
from tests.support.grammars import allowed_text, compiler, regex_matcher
from tests.support.scripted import EOS, CharTokenizer

TOKENIZER = CharTokenizer((*"abcdxyz0123456789.-", "ab", "bc", "xyz"))
A, B, C, AB, BC = TOKENIZER.ids("a", "b", "c", "ab", "bc")
K = ConstraintKind

# What a client may write that is no grammar, or more of one than is taken.
HOSTILE = {
    "no JSON": (K.JSON_SCHEMA, "{"),
    "no schema": (K.JSON_SCHEMA, '"text"'),
    "an unknown type": (K.JSON_SCHEMA, '{"type": "thing"}'),
    "a schema that nothing matches": (K.JSON_SCHEMA, "false"),
    "types that exclude each other": (K.JSON_SCHEMA, '{"allOf": [{"type": "string"}, {"type": "integer"}]}'),
    "a keyword that is not honoured": (K.JSON_SCHEMA, '{"type": "object", "if": {}}'),
    "a schema from elsewhere": (K.JSON_SCHEMA, '{"$ref": "http://example.com/schema"}'),
    "a schema nested too deep": (K.JSON_SCHEMA, '{"items":' * 5000 + "{}" + "}" * 5000),
    "a regex that does not parse": (K.REGEX, "("),
    "a regex that looks ahead": (K.REGEX, "(?=a)b"),
    "a grammar without its start": (K.GRAMMAR, "begin: x"),
    "a grammar with an unknown name": (K.GRAMMAR, "start: x"),
    "a grammar nested too deep": (K.GRAMMAR, "root ::= " + "(" * 5000 + '"a"' + ")" * 5000),
    "no choices": (K.CHOICE, "[]"),
    "an empty choice": (K.CHOICE, '["a", ""]'),
    "choices that are no strings": (K.CHOICE, "[1]"),
    "too many choices": (K.CHOICE, json.dumps([f"c{i}" for i in range(grammar.MOST_CHOICES + 1)])),
}
TOO_MUCH = {
    "intersections": (K.GRAMMAR, "start: A\nA: /(.*a.{100})/ & /(.*b.{100})/ & ~/(.*c.{50}d)/"),
    "repetitions of repetitions": (
        K.GRAMMAR,
        'start: (("a" b){1,1000}){1,1000}\nb: ' + "| ".join(f'"{i}"' for i in range(4000)),
    ),
    "too many ways to begin": (
        K.GRAMMAR,
        "start: "
        + " | ".join(f'"a" b{i}' for i in range(2500))
        + "".join(f'\nb{i}: "b"' for i in range(2500)),
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_grammar_is_refused_by_the_name_of_its_field(name: str) -> None:
    kind, text = HOSTILE[name]
    with pytest.raises(InvalidRequest) as refused:
        lower(Constraint(kind, text, "the field"))
    assert refused.value.field == "the field"
    assert len(refused.value.message) < 400
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("name", TOO_MUCH)
def test_a_grammar_beyond_the_limits_is_refused_before_or_in_its_first_steps(name: str) -> None:
    kind, text = TOO_MUCH[name]
    with pytest.raises(InvalidRequest) as refused:
        matcher = compiler(TOKENIZER).matcher(lower(Constraint(kind, text, "the field")), "the field")
        for _ in range(64):
            matcher.commit(np.flatnonzero(matcher.mask_after([]))[:1].tolist())
    assert refused.value.field == "the field"


@pytest.mark.parametrize("size", [0, LARGEST_CONSTRAINT_BYTES + 1])
def test_a_constraint_of_no_length_or_too_much_is_refused(size: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Constraint(K.REGEX, "a" * size, "the field")
    assert refused.value.field == "the field"


@pytest.mark.parametrize(
    ("kind", "text", "first"),
    [
        (K.REGEX, "a+b|x", {"a", "ab", "x"}),
        (K.CHOICE, '["abc", "xyz", "0"]', {"a", "ab", "x", "xyz", "0"}),
        (K.GRAMMAR, 'start: "a" "b" | "0"', {"a", "ab", "0"}),
        (K.GRAMMAR, 'root ::= "b" "c" | "1"', {"b", "bc", "1"}),
        (K.JSON_SCHEMA, '{"type": "integer", "minimum": 5, "maximum": 7}', {"5", "6", "7"}),
    ],
)
def test_each_kind_of_constraint_allows_its_first_tokens_and_no_others(
    kind: ConstraintKind, text: str, first: set[str]
) -> None:
    matcher = compiler(TOKENIZER).matcher(lower(Constraint(kind, text)), "field")
    assert allowed_text(TOKENIZER, matcher) == first


def test_what_may_come_depends_on_the_path_and_on_no_path_asked_about_before() -> None:
    matcher = regex_matcher(TOKENIZER, "ab+c")
    assert allowed_text(TOKENIZER, matcher, [A]) == {"b", "bc"}
    assert allowed_text(TOKENIZER, matcher, [AB, B, C]) == {""}
    assert allowed_text(TOKENIZER, matcher, [AB, C, EOS]) == {""}
    assert allowed_text(TOKENIZER, matcher, []) == {"a", "ab"}
    matcher.commit([A])
    assert allowed_text(TOKENIZER, matcher, [BC]) == {""}
    assert allowed_text(TOKENIZER, matcher, []) == {"b", "bc"}


def test_nothing_follows_a_path_that_is_forbidden() -> None:
    matcher = regex_matcher(TOKENIZER, "ab+c")
    for path in ([C], [A, C], [A, EOS], [A, B, C, EOS, EOS], [EOS, A]):
        assert allowed_text(TOKENIZER, matcher, path) == set()
    assert allowed_text(TOKENIZER, matcher, []) == {"a", "ab"}


def test_the_end_may_come_where_the_grammar_is_complete_and_go_on_where_it_can() -> None:
    matcher = regex_matcher(TOKENIZER, "a(bc)*")
    assert allowed_text(TOKENIZER, matcher, [A]) == {"", "b", "bc"}
    assert matcher.allowed_length([A, EOS]) == 2
    assert matcher.allowed_length([A, B, EOS]) == 2
    assert matcher.allowed_length([A, BC, B, C, EOS, A]) == 5


def test_a_token_that_the_grammar_forbids_cannot_be_committed() -> None:
    matcher = regex_matcher(TOKENIZER, "ab+c")
    with pytest.raises(InvalidRequest):
        matcher.commit([A, C])


PATHS = st.lists(st.sampled_from([A, B, C, AB, BC, EOS]), max_size=5)


@settings(max_examples=60, deadline=None)
@given(st.lists(PATHS, max_size=6), PATHS)
def test_a_matcher_that_has_walked_anywhere_says_the_same_as_a_fresh_one(
    walks: list[list[int]], path: list[int]
) -> None:
    walked, fresh = (regex_matcher(TOKENIZER, "(ab?|c)*b") for _ in range(2))
    for walk in walks:
        walked.mask_after(walk)
    assert walked.allowed_length(path) == fresh.allowed_length(path)
    assert np.array_equal(walked.mask_after(path), fresh.mask_after(path))


def test_matchers_of_one_grammar_do_not_move_each_other() -> None:
    made = compiler(TOKENIZER)
    text = lower(Constraint(K.REGEX, "ab+c"))
    first, second = made.matcher(text, "field"), made.matcher(text, "field")
    first.commit([A, B])
    assert allowed_text(TOKENIZER, second) == {"a", "ab"}
    assert made.num_compiled == 1


def test_the_latest_grammars_are_kept_compiled_and_no_more_than_so_many() -> None:
    made = compiler(TOKENIZER)
    for index in range(grammar.MOST_COMPILED + 5):
        made.matcher(lower(Constraint(K.REGEX, f"a{{{index + 1}}}")), "field")
    assert made.num_compiled == grammar.MOST_COMPILED


def test_ids_that_the_tokenizer_does_not_have_may_never_come() -> None:
    made = grammar.Compiler(compiler(TOKENIZER)._tokenizer, len(TOKENIZER) + 40)
    mask = made.matcher(lower(Constraint(K.REGEX, "(?s:.*)")), "field").mask_after([])
    assert len(mask) == len(TOKENIZER) + 40
    assert not mask[len(TOKENIZER) :].any()
