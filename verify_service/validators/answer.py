"""One answer as validators see it: its text so far, and what a block would add."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from common import trees
from common.draft_types import Block
from common.model.tokenizer import Tokenizer
from common.types import ValidatorChoice


class Path(NamedTuple):
    """Guesses from the committed text down, the text that they add, and where that of each ends."""

    nodes: tuple[int, ...]
    text: str
    ends: tuple[int, ...]


class AnswerText:
    """Of whole characters: bytes that are not one yet wait for those that follow."""

    def __init__(self, tokenizer: Tokenizer, prompt_length: int) -> None:
        self._tokenizer = tokenizer
        self._read = prompt_length
        self._incomplete = b""
        self.text = ""

    def follow(self, tokens: Sequence[int]) -> None:
        """``tokens``: prompt and answer."""
        new = b"".join(map(self._bytes, tokens[self._read :]))
        self._read = len(tokens)
        text, self._incomplete = _decoded(self._incomplete + new)
        self.text += text

    def path(self, block: Block, nodes: Sequence[int]) -> Path:
        text, ends, incomplete = "", [], self._incomplete
        for node in nodes:
            new, incomplete = _decoded(incomplete + self._bytes(block.token_ids[node]))
            text += new
            ends.append(len(text))
        return Path(tuple(nodes), text, tuple(ends))

    def paths(self, block: Block) -> list[Path]:
        """One to every guess that none follows."""
        leaves = (node for node, after in enumerate(trees.children(block.tree), start=-1) if not after)
        return [self.path(block, trees.path(block.tree, leaf)) for leaf in leaves]

    def _bytes(self, token_id: int) -> bytes:
        return b"" if token_id in self._tokenizer.special_ids else self._tokenizer.token_bytes(token_id)


def _decoded(encoded: bytes) -> tuple[str, bytes]:
    """Whole characters, and the bytes that are left."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(encoded), decoder.getstate()[0]


@dataclass(slots=True, eq=False)
class Asked:
    """One validator of an answer.

    Attributes:
        known: so many characters of the answer are known to the worker of number ``life``.
    """

    key: str
    choice: ValidatorChoice
    life: int = 0
    known: int = 0


@dataclass(slots=True, eq=False)
class Vetted:
    """An answer whose blocks are vetted. ``turn``: the number of its last turn; 0: it had none."""

    text: AnswerText
    asked: list[Asked] = field(default_factory=list)
    turn: int = 0
