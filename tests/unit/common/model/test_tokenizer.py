from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from common.errors import InvalidRequest
from common.model import store
from common.model.tokenizer import Tokenizer, fingerprint
from common.types import Message
from tests.support.models import EOS, UNK, tiny_tokenizer

LETTERS = st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789 \n.,:;!?'()")

TINY = Tokenizer(tiny_tokenizer())


@pytest.fixture
def tokenizer() -> Tokenizer:
    return TINY


def changed(change: Callable[[dict[str, Any]], None], **special: str) -> PreTrainedTokenizerFast:
    """The tiny tokenizer with its vocabulary or its special tokens changed."""
    state = json.loads(tiny_tokenizer().backend_tokenizer.to_str())
    change(state["model"]["vocab"])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(json.dumps(state)),
        **({"unk_token": "<unk>", "eos_token": "<eos>"} | special),
    )


def templated(template: str | None) -> Tokenizer:
    made = tiny_tokenizer()
    made.chat_template = template
    return Tokenizer(made)


def keep(_: dict[str, int]) -> None:
    pass


def swap(vocabulary: dict[str, int]) -> None:
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]


def rename(vocabulary: dict[str, int]) -> None:
    vocabulary["A"] = vocabulary.pop("a")


def grow(vocabulary: dict[str, int]) -> None:
    vocabulary["new"] = len(vocabulary)


def test_a_fingerprint_is_the_same_for_the_same_tokenizer_saved_and_loaded(tmp_path: Path) -> None:
    tiny_tokenizer().save_pretrained(tmp_path)
    assert fingerprint(store.load_tokenizer(str(tmp_path))) == fingerprint(tiny_tokenizer())


def test_a_fingerprint_does_not_change_with_the_chat_template() -> None:
    assert templated(None).fingerprint == fingerprint(changed(keep)) == fingerprint(tiny_tokenizer())


@pytest.mark.parametrize("change", [swap, rename, grow])
def test_a_fingerprint_changes_with_the_vocabulary(change: Callable[[dict[str, int]], None]) -> None:
    assert fingerprint(changed(change)) != fingerprint(changed(keep))


@pytest.mark.parametrize("special", [{"eos_token": "!"}, {"bos_token": "<eos>"}, {"pad_token": "<unk>"}])
def test_a_fingerprint_changes_with_the_special_tokens(special: dict[str, str]) -> None:
    assert fingerprint(changed(keep, **special)) != fingerprint(changed(keep))


def test_the_end_of_a_sequence_is_the_tokenizers(tokenizer: Tokenizer) -> None:
    assert tokenizer.eos_token_ids == {EOS}


def test_a_tokenizer_without_an_end_of_sequence_has_none() -> None:
    made = tiny_tokenizer()
    made.eos_token = None
    assert Tokenizer(made).eos_token_ids == frozenset()


@given(LETTERS)
def test_a_text_is_decoded_to_itself(text: str) -> None:
    assert TINY.decode(TINY.encode(text)) == text


def test_spaces_in_front_of_punctuation_are_kept(tokenizer: Tokenizer) -> None:
    text = "what ? no , do n't ."
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_special_tokens_are_no_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode([EOS, *tokenizer.encode("ab"), UNK, *tokenizer.encode("c"), EOS]) == "abc"


def test_nothing_decodes_to_nothing(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode([]) == ""


def test_a_conversation_goes_through_the_template_up_to_the_answer(tokenizer: Tokenizer) -> None:
    messages = [Message("system", "be brief"), Message("user", "hi")]
    text = tokenizer.decode(tokenizer.encode_conversation(messages))
    assert text == "system: be brief\nuser: hi\nassistant: "


def test_a_conversation_without_a_template_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no chat template") as caught:
        templated(None).encode_conversation([Message("user", "hi")])
    assert caught.value.field == "messages"


def test_a_conversation_that_the_template_refuses_is_refused_with_its_words() -> None:
    strict = templated("{{ raise_exception('the last turn must be the users') }}")
    with pytest.raises(InvalidRequest, match="the last turn must be the users") as caught:
        strict.encode_conversation([Message("assistant", "hi")])
    assert caught.value.field == "messages"


def test_a_conversation_that_the_template_cannot_render_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        templated("{{ messages[5].content.strip() }}").encode_conversation([Message("user", "hi")])
    assert caught.value.field == "messages"


def test_a_conversation_of_no_turns_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(InvalidRequest) as caught:
        tokenizer.encode_conversation([])
    assert caught.value.field == "messages"


def test_every_token_of_the_tiny_tokenizer_is_its_own_bytes() -> None:
    assert TINY.bytewise is not None
    for character in "aé✓ \n":
        (token_id,) = TINY.encode(character)
        assert TINY.token_bytes(token_id) == character.encode()
    assert TINY.bytewise.eos_tokens == [EOS]


def test_all_tokens_that_end_an_answer_are_ends_of_a_grammar_too() -> None:
    both = Tokenizer(tiny_tokenizer(), eos_token_ids=[5, 7])
    assert both.eos_token_ids == {EOS, 5, 7}
    assert both.bytewise is not None
    assert sorted(both.bytewise.eos_tokens) == [EOS, 5, 7]


def test_a_tokenizer_that_cannot_be_read_as_bytes_still_gives_the_text_of_a_token() -> None:
    made = tiny_tokenizer()
    made.backend_tokenizer.decoder = tokenizers.decoders.Fuse()
    tokenizer = Tokenizer(made)
    assert tokenizer.bytewise is None
    assert tokenizer.token_bytes(tokenizer.encode("é")[0]) == "é".encode()
