"""Grammars over a scripted vocabulary, and constraints with everything that checks them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
from llguidance import LLTokenizer, TokenizerWrapper

from common.constraint import Constraint, ConstraintKind
from common.grammar import Compiler, Matcher, lower
from tests.support.scripted import EOS, CharTokenizer
from verify_service.constraints import Constraints

GENEROUS_SECONDS = 60.0


class _Pieces:
    """What llguidance asks of a tokenizer of any kind."""

    eos_token_id = EOS
    bos_token_id = None
    special_token_ids = (EOS,)

    def __init__(self, tokenizer: CharTokenizer) -> None:
        self.tokens = [b"\xff<eos>", *(tokenizer.token_bytes(i) for i in range(1, len(tokenizer)))]
        self._tokenizer = tokenizer

    def __call__(self, text: str) -> list[int]:
        return self._tokenizer.encode(text)


def bytewise(tokenizer: CharTokenizer) -> LLTokenizer:
    return LLTokenizer(TokenizerWrapper(_Pieces(tokenizer)), eos_token=EOS)


def compiler(tokenizer: CharTokenizer) -> Compiler:
    return Compiler(bytewise(tokenizer), len(tokenizer))


def regex_matcher(tokenizer: CharTokenizer, regex: str) -> Matcher:
    return compiler(tokenizer).matcher(lower(Constraint(ConstraintKind.REGEX, regex)), "regex")


def allowed_text(tokenizer: CharTokenizer, matcher: Matcher, path: Sequence[int] = ()) -> set[str]:
    """The pieces that may follow, the end of sequence as an empty one."""
    return {tokenizer.decode([token_id]) for token_id in np.flatnonzero(matcher.mask_after(path)).tolist()}


@asynccontextmanager
async def constraints(
    tokenizer: CharTokenizer, seconds: float = GENEROUS_SECONDS
) -> AsyncIterator[Constraints]:
    made = Constraints(compiler(tokenizer), seconds)
    try:
        yield made
    finally:
        await made.close()
