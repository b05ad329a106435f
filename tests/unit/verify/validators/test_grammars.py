"""Beginnings of JSON and of matches pass, whatever they are cut at; what cannot be completed is cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import InvalidRequest
from tests.unit.verify.validators.support import assert_never_cut, made, stands

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "n": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["name", "n"],
        "additionalProperties": False,
    }
)
FITS = st.builds(lambda name, n: {"name": name, "n": n}, st.text(max_size=8), st.integers(0, 99))


@settings(max_examples=30, deadline=None)
@given(VALUES, st.sampled_from([None, 2]), st.booleans(), st.sampled_from(["", " ", "\n\n"]))
def test_no_beginning_of_json_is_ever_cut(
    value: object, indent: int | None, plain: bool, around: str
) -> None:
    text = around + json.dumps(value, indent=indent, ensure_ascii=plain) + around
    assert_never_cut("json", text, whole="true")


@settings(max_examples=30, deadline=None)
@given(FITS, st.sampled_from([None, 2]))
def test_no_beginning_of_json_that_fits_its_schema_is_ever_cut(value: object, indent: int | None) -> None:
    text = f"Here:\n```json\n{json.dumps(value, indent=indent)}\n```\nThat {{ is it."
    assert_never_cut("json", text, schema=SCHEMA)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ('{"a": }', '{"a": '),
        ("[1, 2,]", "[1, 2,"),
        ("{'a': 1}", "{"),
        ('{"é": truf', '{"é": tru'),
        ('{"a": 1} x', '{"a": 1} '),
        ("\n 01", "\n 0"),
    ],
)
def test_what_is_no_beginning_of_json_is_cut(text: str, good: str) -> None:
    for start in range(len(good) + 1):
        assert stands(made("json", whole="true"), text, start) == good
    for start in range(len(good) + 1, len(text)):
        assert stands(made("json", whole="true"), text, start) == text


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ('{"name": 3', '{"name": '),
        ('{"name": "x", "n": 100}', '{"name": "x", "n": 10'),
        ('{"name": "x"}', '{"name": "x"'),
        ('{"name": "x", "n": 1, ', '{"name": "x", "n": 1'),
        ('{"n": 1, "name": "x"}', '{"n'),  # not in the schema's order
    ],
)
def test_what_does_not_fit_the_schema_is_cut(text: str, good: str) -> None:
    assert stands(made("json", whole="true", schema=SCHEMA), text) == good
    assert stands(made("json", schema=SCHEMA), f"```json\n{text}") == f"```json\n{good}"
    assert stands(made("json", schema=SCHEMA), text) == text, "no block, nothing to look at"


@pytest.mark.parametrize(
    "text", ['"\\u00e9\\/\\ud83d\\ude00\\u0022\\\\u"', '{"\\ud83d": "\x7f\\u007f\\u000a"}', '"\\ud83dx"']
)
def test_characters_may_be_spelled_in_every_way_that_json_knows(text: str) -> None:
    json.loads(text)
    assert_never_cut("json", text, whole="true")
    schema = json.dumps({"type": "string", "maxLength": 5})
    assert stands(made("json", whole="true", schema=schema), '"a\\ud83d\\ude00\\u00e9\\/\\u0022x"').endswith(
        "22"
    )


def test_several_blocks_of_json_are_each_looked_at() -> None:
    validator, text = made("json"), "```json\n[1]\n```\nor\n```json\n[2]\n```\n"
    for start in range(len(text)):
        assert stands(validator, text[: start + 5], start) == text[: start + 5]
    assert stands(validator, text + "```json\n[3}", len(text)) == text + "```json\n[3"


@settings(max_examples=30, deadline=None)
@given(st.from_regex(r"\A[a-f]{2,5}-(foo|bär)+(, [0-9]+)*\Z"))
def test_no_beginning_of_a_match_is_ever_cut(text: str) -> None:
    assert_never_cut("regex", text, pattern=r"[a-f]{2,5}-(foo|bär)+(, [0-9]+)*")


def test_what_cannot_become_a_match_is_cut() -> None:
    pattern = r"\d{3}-(foo|bär)"
    for text, good in {"12a": "12", "123-fob": "123-fo", "123-bär!": "123-bär", "123-bar": "123-b"}.items():
        for start in range(len(good) + 1):
            assert stands(made("regex", pattern=pattern), text, start) == good


def test_a_half_of_a_character_is_no_token_of_its_own() -> None:
    """Its end is where the one before it ends."""
    assert made("regex", pattern="aé").longest("aé", 0, [1, 1, 2]) == 3
    assert made("regex", pattern="ab").longest("aé", 0, [1, 1, 2]) == 2


@pytest.mark.parametrize(
    ("name", "options", "field"),
    [
        ("regex", {}, "regex.pattern"),
        ("regex", {"pattern": "("}, "regex.pattern"),
        ("regex", {"pattern": "a", "flags": "i"}, "regex.flags"),
        ("json", {"schema": "[1"}, "json.schema"),
        ("json", {"schema": '{"type": "nothing"}'}, "json.schema"),
        ("json", {"whole": "yes"}, "json.whole"),
        ("python", {"version": "2"}, "python.version"),
        ("javascript", {"whole": "1"}, "javascript.whole"),
    ],
)
def test_a_wrong_option_is_named(name: str, options: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        made(name, **options)
    assert refused.value.field == f"speculation.validators.{field}"
    assert field in refused.value.message
