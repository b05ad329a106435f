"""A text that grows, held against a grammar byte by byte."""

from __future__ import annotations

from functools import lru_cache

from llguidance import LLTokenizer, TokenizerWrapper

from common.constraint import Constraint
from common.grammar import MOST_COMPILED, Compiler, Matcher, lower

_END = 256


class _Bytes:
    """A tokenizer whose tokens are the bytes, and one for the end."""

    eos_token_id = _END
    bos_token_id = None
    special_token_ids = (_END,)
    tokens = (*(bytes([byte]) for byte in range(_END)), b"<end>")

    def __call__(self, text: str | bytes) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


class GrowingText:
    """What has been read of one text, and where that is in the grammar."""

    def __init__(self, constraint: Constraint) -> None:
        """Raises InvalidRequest naming the constraint's field."""
        self._constraint = constraint
        self._restart()

    def _restart(self) -> None:
        self._matcher = _matcher(self._constraint)
        self._read = b""

    def allowed(self, text: bytes, known: int) -> tuple[int, bool]:
        """How many bytes of ``text`` can be the beginning of a match, and whether those are one.

        Args:
            known: so many bytes will be there again the next time.

        Raises:
            InvalidRequest: when the grammar takes more than its limits here.
        """
        if not text.startswith(self._read) or len(self._read) > known:
            self._restart()
        self._commit(text[len(self._read) : known])
        rest = list(text[len(self._read) :])
        length = self._matcher.allowed_length(rest)
        complete = self._matcher.allowed_length([*rest[:length], _END]) > length
        return len(self._read) + length, complete

    def _commit(self, new: bytes) -> None:
        """As far as it is allowed."""
        allowed = new[: self._matcher.allowed_length(list(new))]
        self._matcher.commit(list(allowed))
        self._read += allowed


def _matcher(constraint: Constraint) -> Matcher:
    return _compiler().matcher(_lowered(constraint), constraint.field)


@lru_cache(MOST_COMPILED)
def _lowered(constraint: Constraint) -> str:
    return lower(constraint)


@lru_cache(1)
def _compiler() -> Compiler:
    return Compiler(LLTokenizer(TokenizerWrapper(_Bytes()), n_vocab=_END + 1), _END + 1)
