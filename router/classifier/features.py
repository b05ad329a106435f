"""What a prompt looks like, as numbers: hashed n-grams of its head, and its shape.

Training and serving both read a prompt through ``extract``; whoever changes it trains anew.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HEAD_CHARACTERS = 200
BUCKETS = 1 << 18
"""How many numbers the n-grams are hashed to."""

_OPENING_CHARACTERS = 28
_ENDING_CHARACTERS = 16
_OPENING_WORDS = 8
_FIRST_WORDS = 3
_START, _END = "\x02", "\x03"
_WORD = re.compile(r"\w+")
_ANY_DIGIT = str.maketrans("123456789", "000000000")

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_TO_BUCKET = np.uint64(64 - BUCKETS.bit_length() + 1)
_OPENING, _ENDING, _WORDS, _OPENING_WORDS_SALT, _BEGINNING = (
    np.uint64(zlib.crc32(name)) << np.uint64(31)
    for name in (b"opening", b"ending", b"words", b"opening words", b"beginning")
)

_SIGNS = ("\n", "?？", ":：", "\"'“”‘’「」『』", "{}[]", "();", "=<>", "+-*/%^$\\|", "_#`@", ".,，。、!！")
_OTHER, _DIGIT, _UPPER, _LOWER = range(len(_SIGNS), len(_SIGNS) + 4)
_KINDS = len(_SIGNS) + 5  # ideographs are the last
_LENGTHS = 16
_SHAPE = 2 * _LENGTHS + 2 * _KINDS + 2
SIZE = BUCKETS + _SHAPE
_SHAPE_INDICES = np.arange(BUCKETS, SIZE)

Hashes = NDArray[np.uint64]
Values = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Features:
    """A sparse vector of ``SIZE`` numbers: ``values`` [n] at ``indices`` [n], int64.

    An index may come more than once; its values add up.
    """

    indices: NDArray[np.int64]
    values: Values


def extract(head: str, prompt_characters: int) -> Features:
    """The features of a prompt from at most its first 200 characters and its length; of any text."""
    head = head[:HEAD_CHARACTERS]
    whole = len(head) < HEAD_CHARACTERS
    text = head.lower().translate(_ANY_DIGIT)
    blocks = [*_of_characters(text, whole), *_of_words(text)]
    hashes = np.concatenate([block for block, _ in blocks])
    values = np.repeat(
        np.array([scale for _, scale in blocks], np.float32), [len(block) for block, _ in blocks]
    )
    return Features(
        np.concatenate([((hashes * _MULTIPLIER) >> _TO_BUCKET).astype(np.int64), _SHAPE_INDICES]),
        np.concatenate([values, _shape(head, whole, prompt_characters)]),
    )


def _of_characters(text: str, whole: bool) -> Iterator[tuple[Hashes, float]]:
    """N-grams anywhere, those of the opening, and, where the head holds the end of the turn, of the end.

    Each block comes with the value of its n-grams.
    """
    codes = _codes(f"{_START}{text}{_END if whole else ''}").astype(np.uint64)
    grams = list(_grams(codes, 4))
    yield np.concatenate(grams), 0.06
    yield np.concatenate([gram[:_OPENING_CHARACTERS] for gram in grams[1:]]) ^ _OPENING, 0.12
    if whole:
        yield np.concatenate([gram[-_ENDING_CHARACTERS:] for gram in grams[1:]]) ^ _ENDING, 0.14


def _of_words(text: str) -> Iterator[tuple[Hashes, float]]:
    """Words and pairs of them anywhere, those of the opening, and how the prompt begins."""
    words = [zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in _WORD.findall(text)]
    hashes = np.array(words, np.uint64)
    singles, pairs = _grams(hashes, 2)
    yield np.concatenate([singles, pairs]) ^ _WORDS, 0.15
    yield np.concatenate([singles[:_OPENING_WORDS], pairs[:_OPENING_WORDS]]) ^ _OPENING_WORDS_SALT, 0.25
    yield np.concatenate([gram[:1] for gram in _grams(hashes, _FIRST_WORDS)]) ^ _BEGINNING, 0.5


def _grams(items: Hashes, longest: int) -> Iterator[Hashes]:
    """The hashes of the n-grams of 1 to ``longest`` items, one for each place at which one starts."""
    grams = items * _MULTIPLIER
    yield grams
    for order in range(2, longest + 1):
        following = items[order - 1 :]
        grams = (grams[: len(following)] ^ following) * _MULTIPLIER
        grams ^= grams >> np.uint64(29)
        yield grams


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _shape(head: str, whole: bool, prompt_characters: int) -> Values:
    """How long the prompt is, apart for heads that hold a whole turn; what kinds of characters it has."""
    lengths = np.zeros((2, _LENGTHS), np.float32)
    unseen = max(prompt_characters - len(head), 0) if whole else prompt_characters
    place = min(np.log2(1 + unseen), _LENGTHS - 2)
    below = int(place)
    lengths[int(whole), below : below + 2] = 1 - (place - below), place - below
    counts = np.bincount(_kinds(_codes(head)), minlength=_KINDS).astype(np.float32)
    shares = np.sqrt(counts / max(len(head), 1))
    asks = head.rstrip()[-1:] in ("?", "？") and whole
    ends = np.array([len(head) / HEAD_CHARACTERS, asks], np.float32)
    return np.concatenate([lengths.ravel(), shares, np.minimum(counts, 4) / 4, ends])


def _kinds(codes: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The kind of each character: a group of signs, other, digit, upper case, lower case, ideograph."""
    return _KIND_OF[np.minimum(codes, len(_KIND_OF) - 1)]


def _kind_table() -> NDArray[np.int64]:
    table = np.full(0x10000, _OTHER)
    table[0x3040:0xA000] = _KINDS - 1
    for kind, characters in ((_DIGIT, "0123456789"), (_UPPER, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")):
        table[[ord(each) for each in characters]] = kind
    table[ord("a") : ord("z") + 1] = _LOWER
    for kind, signs in enumerate(_SIGNS):
        table[[ord(each) for each in signs]] = kind
    table[-1] = _OTHER
    return table


_KIND_OF = _kind_table()
