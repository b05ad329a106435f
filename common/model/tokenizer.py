"""What makes two vocabularies the same, and the chat template."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import llguidance.hf
from jinja2 import TemplateError
from llguidance import LLTokenizer

from common.errors import InvalidRequest
from common.types import Message


class Tokenizer:
    """A transformers tokenizer, with its fingerprint."""

    def __init__(self, tokenizer: Any, eos_token_ids: Collection[int] = ()) -> None:
        """``eos_token_ids``: with the tokenizer's own those that end an answer."""
        self._tokenizer = tokenizer
        self.eos_token_ids = frozenset(eos_token_ids) | _own_eos(tokenizer)
        self._special = frozenset(tokenizer.all_special_ids)
        self.fingerprint = fingerprint(tokenizer)

    @cached_property
    def bytewise(self) -> LLTokenizer | None:
        """Every token as bytes, for grammars; None where these cannot be told. Takes a second to make."""
        if not self.eos_token_ids:
            return None
        try:
            return llguidance.hf.from_tokenizer(self._tokenizer, eos_token=sorted(self.eos_token_ids))
        except ValueError:
            return None

    def token_bytes(self, token_id: int) -> bytes:
        """A token by itself; not always whole characters."""
        if self.bytewise is None:
            return str(self._tokenizer.decode([token_id])).encode()
        return self.bytewise.decode_bytes([token_id])

    def encode(self, text: str) -> list[int]:
        """Token ids of a plain text, with the special tokens the tokenizer itself adds."""
        return list(self._tokenizer(text)["input_ids"])

    def encode_part(self, text: str) -> list[int]:
        """Token ids of a piece of a text: no special tokens are added."""
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def encode_conversation(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a conversation through the model's chat template, ready for the answer.

        Raises:
            InvalidRequest: when the model has no template or the template refuses the messages.
        """
        if not self._tokenizer.chat_template:
            raise InvalidRequest("this model has no chat template; send a prompt", field="messages")
        if not messages:
            raise InvalidRequest("messages is empty", field="messages")
        turns = [{"role": m.role, "content": m.content} for m in messages]
        try:
            encoded = self._tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=True)
        except TemplateError as error:
            raise InvalidRequest(
                f"the chat template refuses the messages: {error}", field="messages"
            ) from None
        return list(encoded["input_ids"])

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text without special tokens."""
        kept = [token_id for token_id in token_ids if token_id not in self._special]
        return str(self._tokenizer.decode(kept, clean_up_tokenization_spaces=False))


def _own_eos(tokenizer: Any) -> frozenset[int]:
    token_id = tokenizer.eos_token_id
    return frozenset() if token_id is None else frozenset({int(token_id)})


def fingerprint(tokenizer: Any) -> str:
    """A hash over every token with its id and over the special tokens."""
    vocabulary = tokenizer.get_vocab().items()
    identity = {
        "vocabulary": sorted((str(token), int(token_id)) for token, token_id in vocabulary),
        "special": sorted((str(role), str(token)) for role, token in tokenizer.special_tokens_map.items()),
        "special_ids": sorted(int(token_id) for token_id in tokenizer.all_special_ids),
    }
    return hashlib.sha256(json.dumps(identity, ensure_ascii=True).encode()).hexdigest()[:32]
