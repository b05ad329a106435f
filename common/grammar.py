"""Structured output: constraints compiled by llguidance, and where one sequence stands in its grammar.

Loads no torch, so that a process that only checks grammars starts fast.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, grammar_from
from numpy.typing import NDArray

from common.constraint import Constraint, ConstraintKind
from common.errors import InvalidRequest

MOST_COMPILED = 64
MOST_CHOICES = 1024

# A mask is computed in the thread that runs the model: it may take milliseconds there at worst.
_LIMITS = LLParserLimits(
    initial_lexer_fuel=1_000_000,
    step_lexer_fuel=50_000,
    step_max_items=20_000,
    max_lexer_states=20_000,
    max_grammar_size=200_000,
    verbose_errors=False,
)


def lower(constraint: Constraint) -> str:
    """The constraint in llguidance's own form, found to be a grammar.

    What a client writes can make this take for ever, so it belongs in a process that may be killed.

    Raises:
        InvalidRequest: naming the constraint's field.
    """
    try:
        grammar = _FORMS[constraint.kind](constraint.text)
    except (ValueError, RecursionError) as error:
        raise _refusal(constraint.field, str(error)) from None
    complaint = LLMatcher.validate_grammar(grammar, limits=_LIMITS)
    if complaint and not complaint.startswith("WARNING"):
        raise _refusal(constraint.field, complaint)
    return grammar


def _refusal(field: str, complaint: str) -> InvalidRequest:
    first_line = complaint.strip().partition("\n")[0]
    return InvalidRequest(f"{field}: {first_line[:300]}", field=field)


def _json_schema(text: str) -> str:
    if isinstance(json.loads(text), dict | bool):
        return grammar_from("json_schema", text)
    raise ValueError("a JSON schema is an object")


def _choice(text: str) -> str:
    choices = json.loads(text)
    listed = isinstance(choices, list) and all(isinstance(choice, str) and choice for choice in choices)
    if not listed or not 0 < len(choices) <= MOST_CHOICES:
        raise ValueError(f"a choice is a list of 1 to {MOST_CHOICES} strings that are not empty")
    return grammar_from("lark", "start: " + " | ".join(json.dumps(c, ensure_ascii=False) for c in choices))


_FORMS: Mapping[ConstraintKind, Callable[[str], str]] = {
    ConstraintKind.JSON_SCHEMA: _json_schema,
    ConstraintKind.CHOICE: _choice,
    ConstraintKind.REGEX: lambda text: grammar_from("regex", text),
    ConstraintKind.GRAMMAR: lambda text: grammar_from("grammar", text),
}


class Compiler:
    """Grammars over one vocabulary; keeps the latest used ones compiled."""

    def __init__(self, tokenizer: LLTokenizer, vocabulary_size: int) -> None:
        """``vocabulary_size``: of the model's logits, which may be more than the tokenizer has."""
        self._tokenizer = tokenizer
        self._eos = frozenset(tokenizer.eos_tokens)
        self._vocabulary_size = vocabulary_size
        self._compiled = lru_cache(MOST_COMPILED)(self._compile)

    @property
    def num_compiled(self) -> int:
        return self._compiled.cache_info().currsize

    def matcher(self, grammar: str, field: str) -> Matcher:
        """A matcher at the grammar's start.

        Args:
            grammar: as ``lower`` gives it.
            field: what errors name, now and later.

        Raises:
            InvalidRequest: for a grammar beyond the limits.
        """
        compiled = self._compiled(grammar)
        if compiled.is_error():
            raise _refusal(field, compiled.get_error())
        return Matcher(compiled.deep_copy(), grammar, self._eos, self._vocabulary_size, field)

    def _compile(self, grammar: str) -> LLMatcher:
        matcher = LLMatcher(self._tokenizer, grammar, log_level=0, limits=_LIMITS)
        if not matcher.is_error():
            matcher.compute_bitmask()  # a grammar that is too much for one mask is refused now, not later
        return matcher


class Matcher:
    """Where one sequence stands in its grammar. Used by one thread at a time.

    It walks ahead along guesses and back again; only ``commit`` moves what it walks from.

    Attributes:
        text: the grammar, as another process may compile it.
    """

    def __init__(
        self, matcher: LLMatcher, text: str, eos: frozenset[int], vocabulary_size: int, field: str
    ) -> None:
        self.text = text
        self._matcher = matcher
        self._eos = eos
        self._vocabulary_size = vocabulary_size
        self._field = field
        self._ahead: list[int] = []

    def commit(self, token_ids: Sequence[int]) -> None:
        """Raises InvalidRequest for tokens that the grammar forbids: it is another end's grammar."""
        if self._walk(token_ids) < len(token_ids):
            raise _refusal(self._field, "tokens were committed that the grammar forbids")
        self._ahead = []

    def allowed_length(self, path: Sequence[int]) -> int:
        """How many of the guesses may stand, one after the other."""
        return self._walk(path)

    def mask_after(self, path: Sequence[int]) -> NDArray[np.bool_]:
        """bool [vocabulary]: what may follow the committed tokens and the guesses of ``path``; nothing, where
        the path itself is forbidden. Once the grammar is complete, the end-of-sequence tokens alone.

        Raises:
            InvalidRequest: when the grammar takes more than its limits here.
        """
        mask = np.zeros(self._vocabulary_size, np.bool_)
        if self._walk(path) < len(path):
            return mask
        if path and path[-1] in self._eos:
            mask[list(self._eos)] = True
            return mask
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        known = np.unpackbits(bits, count=min(len(bits) * 8, self._vocabulary_size), bitorder="little")
        mask[: len(known)] = known
        return mask

    def _walk(self, path: Sequence[int]) -> int:
        """Go to the end of ``path``, or as far as it is allowed; how far. An end of sequence ends it."""
        text = next((i for i, token_id in enumerate(path) if token_id in self._eos), len(path))
        length = self._walk_text(path[:text])
        ends = length == text < len(path) and self._matcher.is_accepting()
        return length + ends

    def _walk_text(self, path: Sequence[int]) -> int:
        """The same without ends of sequence, of which the matcher could not be rolled back."""
        shared = 0
        for walked, wanted in zip(self._ahead, path, strict=False):
            if walked != wanted:
                break
            shared += 1
        if shared < len(self._ahead):
            self._matcher.rollback(len(self._ahead) - shared)
            del self._ahead[shared:]
        rest = list(path[shared:])
        self._ahead += rest[: self._matcher.try_consume_tokens(rest)]
        self._check()
        return len(self._ahead)

    def _check(self) -> None:
        """A limit once passed, the matcher is of no more use."""
        if self._matcher.is_error():
            raise _refusal(self._field, self._matcher.get_error())
