"""The text of an answer and of what is drafted, with an end for each guess, whole characters only."""

from __future__ import annotations

from common.draft_types import Block
from tests.support.scripted import EOS, CharTokenizer, as_tokenizer
from verify_service.validators.answer import AnswerText

TOKENIZER = CharTokenizer(["a", "b", "cd", b"\xc3", b"\xa9", b"\xe2\x82"])


def test_halves_of_characters_wait_for_the_other_half_on_both_sides_of_the_draft() -> None:
    text = AnswerText(as_tokenizer(TOKENIZER), prompt_length=2)
    tokens = [*TOKENIZER.ids("b", "b"), *TOKENIZER.ids("a", b"\xc3")]
    text.follow(tokens)
    assert text.text == "a"
    block = Block(1, 4, tuple(TOKENIZER.ids(b"\xa9", "cd", b"\xc3", b"\xa9", b"\xe2\x82", "a")))
    [path] = text.paths(block)
    assert path.text == "écdé�a"
    assert path.ends == (1, 3, 3, 4, 4, 6)
    text.follow([*tokens, *TOKENIZER.ids(b"\xa9"), EOS])
    assert text.text == "aé"


def test_of_a_tree_there_is_a_path_to_each_leaf() -> None:
    text = AnswerText(as_tokenizer(TOKENIZER), prompt_length=0)
    block = Block(1, 0, tuple(TOKENIZER.ids("a", "b", "cd", "a")), parents=(-1, -1, 0, 2))
    assert [(path.nodes, path.text, path.ends) for path in text.paths(block)] == [
        ((1,), "b", (1,)),
        ((0, 2, 3), "acda", (1, 3, 4)),
    ]
