"""The rules source: expressions, names from the prompt, keys from a schema, and token boundaries."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from common import trees
from common.constraint import Constraint, ConstraintKind
from common.draft_types import Block
from common.errors import ConfigError
from common.grammar import lower
from common.model.tokenizer import Tokenizer
from common.types import Mode
from draft_service.config import Config
from draft_service.sources import registry
from draft_service.sources.base import NOTHING
from draft_service.sources.rule_file import load_rules
from draft_service.sources.rules import RuleSource, names, schema_keys
from tests.support.models import save_tiny, tiny_tokenizer
from tests.unit.draft.byte_tokenizers import byte_level
from tests.unit.draft.sessions import opened
from verify_service.drafts.checking import Asked, check_block

LETTERS = Tokenizer(tiny_tokenizer(200))
RULE = """[[rule]]
name = "greeting"
pattern = '(?P<word>[a-z]+) and '
continuation = '\\g<word> again, \\1'
"""


def merging() -> Tokenizer:
    """Bytes, and ``na``, ``me`` and ``name`` in one token each."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*alphabet, "na", "me", "name"])}
    merges = [("n", "a"), ("m", "e"), ("na", "me")]
    backend = Backend(models.BPE(vocab=vocabulary, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend))


def source(tmp_path: Path, content: str, tokenizer: Tokenizer = LETTERS) -> RuleSource:
    path = tmp_path / "rules.toml"
    path.write_text(content)
    return RuleSource(tokenizer, load_rules(str(path)))


def said(
    made: RuleSource, text: str, prompt: str = "", grammar: str = "", tokenizer: Tokenizer = LETTERS
) -> str:
    """The chain of guesses after a text, decoded."""
    prompt_length = len(tokenizer.encode(prompt)) if prompt else 0
    tokens = tokenizer.encode(prompt + text)
    session = opened(tokens=tokens, block_size=40, prompt_length=prompt_length, grammar=grammar)
    (guess,) = made.propose([session])
    assert guess is not None
    assert (guess.distributions, guess.confidences) == ((), ())
    return tokenizer.decode(guess.token_ids)


def schema(properties: dict[str, object]) -> str:
    text = json.dumps({"type": "object", "properties": properties})
    return lower(Constraint(ConstraintKind.JSON_SCHEMA, text))


def test_a_rule_goes_on_with_the_groups_of_what_it_matched(tmp_path: Path) -> None:
    assert said(source(tmp_path, RULE), "on and ") == "on again, on"


def test_a_rule_applies_at_the_end_of_the_text_only(tmp_path: Path) -> None:
    assert said(source(tmp_path, RULE), "on and off") == ""


def test_a_rule_sees_no_more_than_the_last_characters(tmp_path: Path) -> None:
    made = source(tmp_path, "[[rule]]\nname='far'\npattern='far.*'\ncontinuation='!'\n")
    assert said(made, "far" + "x" * 100) == "!"
    assert said(made, "far" + "x" * 300) == ""


def test_an_expression_that_takes_for_ever_is_cut_short(tmp_path: Path) -> None:
    made = source(tmp_path, "[[rule]]\nname='slow'\npattern='(?:x+x+)+(?<=y)'\ncontinuation='!'\n")
    started = time.perf_counter()
    assert said(made, "x" * 250) == ""
    assert time.perf_counter() - started < 1


def test_tokens_are_those_the_tokenizer_makes_at_that_place(tmp_path: Path) -> None:
    tokenizer = merging()
    made = source(tmp_path, "[[rule]]\nname='n'\npattern='my '\ncontinuation='name'\n", tokenizer)
    session = opened(tokens=tokenizer.encode("my "), block_size=8)
    (guess,) = made.propose([session])
    assert guess is not None
    assert [*session.tokens, *guess.token_ids] == tokenizer.encode("my name")


def test_where_the_text_has_ended_within_a_token_the_rest_is_encoded_by_itself(tmp_path: Path) -> None:
    tokenizer = merging()
    made = source(tmp_path, "[[rule]]\nname='n'\npattern='na'\ncontinuation='me'\n", tokenizer)
    assert said(made, "my na", tokenizer=tokenizer) == "me"


def test_nothing_is_said_after_half_a_character(tmp_path: Path) -> None:
    tokenizer = byte_level()
    made = source(tmp_path, "[[rule]]\nname='any'\npattern='.'\ncontinuation='x'\n", tokenizer)
    half = opened(tokens=tokenizer.encode("é")[:1])
    assert made.propose([half]) == [NOTHING]


def test_a_name_of_the_prompt_is_finished_the_most_frequent_first(tmp_path: Path) -> None:
    prompt = "ask the Great Lakes and the Great Reef about the Great Reef. "
    made = source(tmp_path, RULE)
    assert said(made, "the Gr", prompt) == "eat Reef"
    assert said(made, "the Great L", prompt) == "akes"
    assert said(made, "the X", prompt) == ""


def test_a_key_of_the_schema_is_finished(tmp_path: Path) -> None:
    grammar = schema({"street": {"type": "string"}, "person": {"properties": {"surname": {}}}})
    made = source(tmp_path, RULE)
    assert said(made, '{"', grammar=grammar) == 'street":'
    assert said(made, '{"person": {"su', grammar=grammar) == 'rname":'
    assert said(made, '{"street": "su', grammar=grammar) == ""


def test_only_a_schema_has_keys() -> None:
    assert schema_keys(schema({"b": {}, "a": {"properties": {"inner": {}}}})) == ("b", "a", "inner")
    for kind, text in ((ConstraintKind.REGEX, "a+"), (ConstraintKind.CHOICE, '["a"]')):
        assert schema_keys(lower(Constraint(kind, text))) == ()
    assert schema_keys("") == ()


def test_names_are_words_with_capitals() -> None:
    assert names("we met Ada Lovelace, then Bob and Ada Lovelace") == ("Ada Lovelace", "Bob")


@given(st.text('ab aAB{,":', max_size=60), st.integers(1, 8), st.integers(1, 8))
def test_every_guess_is_one_the_verify_service_takes(text: str, count: int, width: int) -> None:
    prompt = "AB Ab the AAB Aa B "
    tokens = LETTERS.encode(prompt + text)
    session = opened(
        tokens=tokens,
        block_size=count,
        tree_width=width,
        prompt_length=len(prompt),
        grammar=schema({"ab": {}}),
    )
    (guess,) = RuleSource(LETTERS, load_rules("")).propose([session])
    assert guess is not None
    check_block(
        Block(1, len(tokens), guess.token_ids, guess.parents), Asked(count, width, 300, Mode.REJECTION)
    )
    assert len(guess.parents or trees.chain(len(guess.token_ids))) == len(guess.token_ids)


def test_a_session_opened_again_has_the_names_of_its_new_prompt(tmp_path: Path) -> None:
    made = source(tmp_path, RULE)
    assert said(made, "the Lo", "London. ") == "ndon"
    assert said(made, "the Lo", "Lofoten. ") == "foten"
    made.close("s")
    made.close("unknown")
    assert made._known == {}


def test_sessions_of_one_round_are_answered_each(tmp_path: Path) -> None:
    made = source(tmp_path, RULE)
    sessions = [opened(name, LETTERS.encode(text)) for name, text in (("a", "on and "), ("b", "off"))]
    first, second = made.propose(sessions)
    assert first is not None
    assert LETTERS.decode(first.token_ids) == "on a"
    assert second == NOTHING


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "rules.toml"),
        ("rule = 1", "list of"),
        ("[[rule]]\nname", "rules.toml"),
        ("[[rule]]\nname='a'\npattern='a'\n", "rule a: a rule has the keys"),
        ("[[rule]]\nname='a'\npattern='a'\ncontinuation=''\n", "rule a: every value"),
        ("[[rule]]\nname='a'\npattern='('\ncontinuation='b'\n", "rule a, key pattern"),
        ("[[rule]]\nname='a'\npattern='a'\ncontinuation='\\1'\n", "rule a, key continuation.*group 1"),
        ("[[rule]]\nname='a'\npattern='a'\ncontinuation='\\g<x>'\n", "rule a, key continuation.*group x"),
    ],
)
def test_a_bad_rule_is_refused_with_its_name_its_file_and_the_variable(
    tmp_path: Path, content: str | None, complaint: str
) -> None:
    path = tmp_path / "rules.toml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=rf"TANDEM_DRAFT_RULES: .*rules\.toml.*{complaint}|{complaint}"):
        load_rules(str(path))


def test_the_configured_source_has_the_packaged_rules(tmp_path: Path) -> None:
    made = registry.make(Config(source="rules"), save_tiny(tmp_path / "model"))
    session = opened(tokens=tiny_tokenizer()("we can do this")["input_ids"], block_size=8)
    (guess,) = made.propose([session])
    assert guess is not None
    assert tiny_tokenizer().decode(guess.token_ids) == " by"
