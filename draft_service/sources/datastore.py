"""Documents as token ids with their suffix array, in files that are mapped into memory to be searched."""

from __future__ import annotations

import json
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.errors import ConfigError

VARIABLE = "TANDEM_DRAFT_DATASTORE"
LONGEST, SHORTEST = 16, 2
_TOKENS, _SUFFIXES, _MANIFEST = "tokens.npy", "suffixes.npy", "datastore.json"
_FORMAT = 1
# Big-endian: then tokens compare as the bytes they are stored in.
_TOKEN, _PLACE = np.dtype(">u4"), np.dtype("<u4")
_WIDTH = _TOKEN.itemsize
_END = (1 << 32) - 1  # after each document; no token has this id
_MOST_TOKENS = 1 << 31


@dataclass(frozen=True, slots=True)
class Manifest:
    """``fingerprint``: of the tokenizer, see ``common.model.tokenizer``."""

    fingerprint: str
    tokens: int
    documents: int
    format: int = _FORMAT


def sort_suffixes(tokens: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The places of ``tokens`` in the order of the first ``LONGEST`` tokens from there; of equals the first.

    Prefix doubling (Manber and Myers 1993), stopped at the longest match anybody looks for: log2(LONGEST)
    sorts, O(n log n) time, some 40 bytes a token; less than a second for a million tokens.

    Args:
        tokens: [tokens], at most 2^31 of them.
    """
    rank = np.unique(tokens, return_inverse=True)[1].astype(np.int64)
    order = np.argsort(rank, kind="stable")
    length = 1
    while length < LONGEST:
        key = rank << 32
        key[:-length] |= rank[length:] + 1  # a suffix that ends comes before one that goes on
        order = np.argsort(key, kind="stable")
        ranked = key[order]
        rank[order] = np.concatenate([[0], np.cumsum(ranked[1:] != ranked[:-1])])
        length *= 2
    return order


def save(folder: Path, documents: Sequence[Sequence[int]], fingerprint: str) -> Manifest:
    """Write a datastore; the folder appears when it is complete.

    Raises:
        ConfigError: for a folder that exists, or too few or too many tokens.
    """
    if folder.exists():
        raise ConfigError(f"{folder} exists already", field="out")
    tokens = np.concatenate([np.array([*document, _END], np.uint32) for document in documents or [[]]])
    if not LONGEST < len(tokens) < _MOST_TOKENS:
        raise ConfigError(f"the documents hold {len(tokens)} tokens; {LONGEST} to 2^31 are taken")
    manifest = Manifest(fingerprint, len(tokens), len(documents))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".datastore-") as scratch:
        made = Path(scratch) / "datastore"
        made.mkdir()
        np.save(made / _TOKENS, tokens.astype(_TOKEN))
        np.save(made / _SUFFIXES, sort_suffixes(tokens).astype(_PLACE))
        (made / _MANIFEST).write_text(json.dumps(asdict(manifest)), encoding="utf-8")
        made.rename(folder)
    return manifest


class Datastore:
    """Where documents have what a text ends with."""

    def __init__(self, tokens: NDArray[np.uint32], suffixes: NDArray[np.uint32]) -> None:
        """
        Args:
            tokens: [tokens], big-endian.
            suffixes: [tokens], as ``sort_suffixes`` gives them.
        """
        self._bytes = memoryview(tokens.view(np.uint8))  # type: ignore[arg-type]
        self._suffixes = memoryview(suffixes)  # type: ignore[arg-type]

    def find(self, text: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
        """Where something followed the longest tail that occurs: (place of what followed, tail's length).

        Of more than ``most`` occurrences as many, evenly spread over the order of what follows: so each
        continuation is found in proportion to its count. The tail has ``SHORTEST`` to ``LONGEST`` tokens.
        """
        tail = np.array(text[-LONGEST:], _TOKEN).tobytes()
        lengths = range(SHORTEST, len(tail) // _WIDTH + 1)
        length = SHORTEST - 1 + bisect_left(lengths, True, key=lambda length: not self._occurs(tail, length))
        if length < SHORTEST:
            return
        wanted = tail[-_WIDTH * length :]
        first = self._bisect_left(wanted)
        last = bisect_right(self._suffixes, wanted, first, key=self._start(len(wanted)))
        count = min(most, last - first)
        for index in range(count):
            place = self._suffixes[first + (last - first) * index // count] + length
            if self._token(place) != _END:
                yield place, length

    def after(self, place: int, count: int) -> list[int]:
        """Up to ``count`` tokens from there to the end of the document."""
        found: list[int] = np.frombuffer(
            self._bytes[_WIDTH * place : _WIDTH * (place + count)], _TOKEN
        ).tolist()
        return found[: found.index(_END)] if _END in found else found

    def _occurs(self, tail: bytes, length: int) -> bool:
        wanted = tail[-_WIDTH * length :]
        index = self._bisect_left(wanted)
        return index < len(self._suffixes) and self._start(len(wanted))(self._suffixes[index]) == wanted

    def _bisect_left(self, wanted: bytes) -> int:
        return bisect_left(self._suffixes, wanted, key=self._start(len(wanted)))

    def _start(self, size: int) -> Callable[[int], bytes]:
        """The first ``size`` bytes of the suffix at a place."""
        return lambda place: bytes(self._bytes[_WIDTH * place : _WIDTH * place + size])

    def _token(self, place: int) -> int:
        return int.from_bytes(self._bytes[_WIDTH * place : _WIDTH * (place + 1)])


def load(folder: Path, fingerprint: str) -> Datastore:
    """A datastore whose files are mapped, not read.

    Raises:
        ConfigError: for a folder that holds none, or one of another tokenizer.
    """
    try:
        manifest = Manifest(**json.loads((folder / _MANIFEST).read_text(encoding="utf-8")))
        tokens, suffixes = (
            np.load(folder / name, mmap_mode="r", allow_pickle=False) for name in (_TOKENS, _SUFFIXES)
        )
    except (OSError, ValueError, TypeError) as error:
        raise _bad(f"{folder} is no datastore: {error}") from None
    if manifest.fingerprint != fingerprint:
        raise _bad(
            f"{folder} was made with the tokenizer {manifest.fingerprint}, the target's is {fingerprint}"
        )
    sound = all(array.shape == (manifest.tokens,) for array in (tokens, suffixes))
    if manifest.format != _FORMAT or not sound or (tokens.dtype, suffixes.dtype) != (_TOKEN, _PLACE):
        raise _bad(f"{folder} is incomplete or of another format")
    return Datastore(tokens, suffixes)


def _bad(what: str) -> ConfigError:
    return ConfigError(f"{VARIABLE}: {what}", field=VARIABLE)
