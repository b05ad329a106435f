"""Drafts in another vocabulary: tokens cross over as the text they stand for.

The committed tokens become text, the text tokens of the draft model, its guesses text again, and that the
target's tokens. Universal assisted generation in transformers works so; Timor et al. 2025 ("Accelerating LLM
Inference with Lossless Speculative Decoding Algorithms for Heterogeneous Vocabularies") call it string-level
exact match and prove it lossless; their token-level intersection (TLI), which keeps q, needs a vocabulary
that is mostly shared.
"""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from common.model.tokenizer import Tokenizer
from common.types import Mode, SamplingParams
from draft_service import metrics
from draft_service.session import Session
from draft_service.sources.base import NOTHING, Guess, Source

_STABLE = 8  # tokens that must come out as before, for an encoding from their beginning on to be believed
_TAIL = 8  # committed tokens in whose context guesses are encoded
_GREEDY = SamplingParams(temperature=0)


class Unreproducible(Exception):
    """The draft's tokenizer does not give back the text that it is given."""


class ReencodingSource:
    """A source over another tokenizer's tokens, as a source over the target's.

    Its guesses are chains, and certain (one-hot): the probability of a text is no product of the draft's q's,
    since other tokens spell the same text. What serves best then is the draft's likeliest continuation, so
    that is what it is asked for, whatever the session's sampling: a certain guess x stands with probability
    p(x), and the noise of keyed verification belongs to the target's token ids, which the draft does not use.

    An encoding does not go back, so where tokens are assumed it says nothing.
    """

    def __init__(self, inner: Source, ours: Tokenizer, theirs: Tokenizer) -> None:
        """
        Args:
            inner: over the tokens of ``ours``.
            theirs: the target's tokenizer; the bytes of the tokens of both can be told.
        """
        self.name = inner.name
        self.model_version = inner.model_version
        self._inner = inner
        self._ours = ours
        self._theirs = theirs
        self._mirrors: dict[str, _Mirror] = {}

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        told = [session for session in sessions if not session.assumed]
        results = dict(zip(told, self._propose(told), strict=True))
        return [results.get(session) for session in sessions]

    def _propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        mirrors = [self._mirror(session) for session in sessions]
        asked = [mirror.inner for mirror in mirrors if mirror.inner.block_size]
        answers = iter(self._inner.propose(asked))
        guesses = [next(answers) if mirror.inner.block_size else NOTHING for mirror in mirrors]
        return [
            self._translated(session, mirror, guess) if guess else guess
            for session, mirror, guess in zip(sessions, mirrors, guesses, strict=True)
        ]

    def close(self, session_id: str) -> None:
        self._mirrors.pop(session_id, None)
        self._inner.close(session_id)

    def _mirror(self, session: Session) -> _Mirror:
        """The session in the draft's tokens, caught up; one that cannot be told in them asks for nothing."""
        mirror = self._mirrors.get(session.session_id)
        if mirror is None:
            mirror = self._mirrors[session.session_id] = _Mirror(session, self._ours, self._theirs)
        mirror.follow(session)
        return mirror

    def _translated(self, session: Session, mirror: _Mirror, guess: Guess) -> Guess:
        token_ids, ends = mirror.back(guess.token_ids)
        token_ids = token_ids[: session.block_size]
        length = session.allowed_length(token_ids)
        beliefs = [guess.confidences[end] for end in ends[:length]] if guess.confidences else []
        return Guess(tuple(token_ids[:length]), confidences=tuple(beliefs))


class _Mirror:
    """One session, followed in the draft's tokens."""

    def __init__(self, session: Session, ours: Tokenizer, theirs: Tokenizer) -> None:
        self._text = _Text(theirs, frozenset(map(ours.token_bytes, ours.special_ids)))
        self._encoding = _Encoding(ours)
        self._ours = ours
        self._theirs = theirs
        self._failed = False
        self.inner = Session(
            session.session_id, [], 0, _GREEDY, Mode.KEYED, noise_seed=0, block_size=0, publish=False
        )

    def follow(self, session: Session) -> None:
        self.inner.block_size = 0
        if self._failed:
            return
        self._text.extend(session.tokens)
        try:
            self._encoding.follow(self._text.whole.encode())
        except Unreproducible:
            self._failed = True
            metrics.UNREPRODUCIBLE.inc()
            return
        self.inner.tokens = self._encoding.token_ids
        self.inner.block_size = session.block_size if self.inner.tokens else 0

    def back(self, guesses: Sequence[int]) -> tuple[list[int], list[int]]:
        """The guessed text in the target's tokens, and for each the guess in which it ends.

        It is encoded together with the end of the committed text, so that the tokens are those the target
        would use there. Where none of these begins with the guess, it is encoded by itself: then what was
        committed was not the tokenizer's own choice.
        """
        pieces = list(itertools.takewhile(bool, (self._bytes(token_id) for token_id in guesses)))
        begun = self._text.open_character
        text = _complete(b"".join(pieces))
        if not text.startswith(begun):
            return [], []
        new = text[len(begun) :]
        spelled = _suffix(self._theirs, self._text.tail + new, new) or _suffix(self._theirs, new, new)
        reached = list(itertools.accumulate(map(len, pieces), initial=-len(begun)))[1:]
        ends = itertools.accumulate(len(self._theirs.token_bytes(token_id)) for token_id in spelled)
        return spelled, [next(i for i, there in enumerate(reached) if there >= end) for end in ends]

    def _bytes(self, token_id: int) -> bytes:
        """Empty for a special token: text ends there."""
        return b"" if token_id in self._ours.special_ids else self._ours.token_bytes(token_id)


def _complete(text: bytes) -> bytes:
    """Without the bytes of a last character that is not whole."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(text)
    return text.removesuffix(decoder.getstate()[0])


def _suffix(tokenizer: Tokenizer, text: bytes, wanted: bytes) -> list[int]:
    """Of the encoding of ``text`` the tokens that spell its end ``wanted``; none where no token begins it."""
    token_ids = tokenizer.encode_plain(text.decode(errors="replace"))
    spelled = b""
    for index in range(len(token_ids) - 1, -1, -1):
        spelled = tokenizer.token_bytes(token_ids[index]) + spelled
        if len(spelled) >= len(wanted):
            return token_ids[index:] if spelled == wanted else []
    return []


@dataclass(slots=True)
class _Text:
    """What the committed tokens say; of the special ones only those that the draft knows too.

    Attributes:
        whole: all complete characters.
        open_character: the bytes after them.
    """

    tokenizer: Tokenizer
    known: frozenset[bytes]
    whole: str = ""
    open_character: bytes = b""
    _tail: list[bytes] = field(default_factory=list)
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )
    _read: int = 0

    def extend(self, tokens: Sequence[int]) -> None:
        """Committed tokens are never taken back, so only the new ones are read."""
        for token_id in tokens[self._read :]:
            self._add(self.tokenizer.token_bytes(token_id), token_id in self.tokenizer.special_ids)
        self._read = len(tokens)
        self.open_character = self._decoder.getstate()[0]

    def _add(self, piece: bytes, special: bool) -> None:
        if not special or piece in self.known:
            self.whole += self._decoder.decode(piece)
        self._tail = [] if special else [*self._tail, piece][-_TAIL:]

    @property
    def tail(self) -> bytes:
        """The last few tokens after the last special one, from their first whole character on."""
        return b"".join(self._tail).lstrip(bytes(range(0x80, 0xC0)))


class _Encoding:
    """A growing text in a tokenizer's tokens, of which only the end is encoded anew."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._text = b""
        self._plain: list[int] = []

    @property
    def token_ids(self) -> list[int]:
        beginning = self._tokenizer.beginning
        begun = self._plain[: len(beginning)] == beginning
        return list(self._plain) if begun else [*beginning, *self._plain]

    def follow(self, text: bytes) -> None:
        """``text`` begins with what it was before.

        What is added can change tokens before it: those of a word that it goes on, or more. So the encoding
        starts some tokens back, and is believed where the first of them come out as before; else it starts
        twice as far back.

        Raises:
            Unreproducible: where the tokens do not spell the text.
        """
        back = 2 * _STABLE
        while back < len(self._plain):
            old = self._plain[-back:]
            start = len(self._text) - len(self._spelled(old))
            new = self._encoded(text[start:])
            if new and new[:_STABLE] == old[:_STABLE]:
                self._plain[-back:] = new
                break
            back *= 2
        else:
            whole = self._encoded(text)
            if whole is None:
                raise Unreproducible
            self._plain = whole
        self._text = text

    def _encoded(self, text: bytes) -> list[int] | None:
        """None where the tokens do not spell the text."""
        token_ids = self._tokenizer.encode_plain(text.decode(errors="replace"))
        # SentencePiece tokenizers put a space before a text.
        faithful = self._spelled(token_ids).removeprefix(b" ") == text.removeprefix(b" ")
        return token_ids if faithful else None

    def _spelled(self, token_ids: Sequence[int]) -> bytes:
        return b"".join(self._tokenizer.token_bytes(token_id) for token_id in token_ids)
