"""What makes two vocabularies the same, and the chat template."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError

from common.errors import InvalidRequest
from common.types import Message


class Tokenizer:
    """A transformers tokenizer, with its fingerprint."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._special = frozenset(tokenizer.all_special_ids)
        self.fingerprint = fingerprint(tokenizer)

    @property
    def eos_token_id(self) -> int | None:
        token_id = self._tokenizer.eos_token_id
        return None if token_id is None else int(token_id)

    def encode(self, text: str) -> list[int]:
        """Token ids of a plain text, with the special tokens the tokenizer itself adds."""
        return list(self._tokenizer(text)["input_ids"])

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


def fingerprint(tokenizer: Any) -> str:
    """A hash over every token with its id and over the special tokens."""
    vocabulary = tokenizer.get_vocab().items()
    identity = {
        "vocabulary": sorted((str(token), int(token_id)) for token, token_id in vocabulary),
        "special": sorted((str(role), str(token)) for role, token in tokenizer.special_tokens_map.items()),
        "special_ids": sorted(int(token_id) for token_id in tokenizer.all_special_ids),
    }
    return hashlib.sha256(json.dumps(identity, ensure_ascii=True).encode()).hexdigest()[:32]
