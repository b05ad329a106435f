"""Where a run of tokens occurred before: texts end to end, with the hash chains of LZ77 (RFC 1951, § 4)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

LONGEST = 16
_RUNS = (6, 3, 1)  # each has its chain; a match is looked for in the first chain that has one
_END = (1 << 32) - 1  # after each text; no token has this id
_NOWHERE = -1


class Occurrences:
    """Texts that grow at the end and fall out, whole, at the beginning.

    For a few lengths of run, a table leads from the run to the last place where it stands, and every place
    to the one before it. Nothing is sorted, no node is kept: a token costs a step when it comes and one when
    it goes, and some 200 bytes at most in between.

    Places are counted from the first token there ever was, so they stay what they are when texts fall out.
    """

    def __init__(self) -> None:
        self._tokens = array("I")
        self._dropped = 0
        self._text_start = 0
        self._latest: tuple[dict[int, int], ...] = tuple({} for _ in _RUNS)
        self._earlier = tuple(array("q") for _ in _RUNS)

    def __len__(self) -> int:
        """Tokens, and one more for each text that has ended."""
        return len(self._tokens)

    def extend(self, token_ids: Sequence[int]) -> None:
        """The current text goes on."""
        before = len(self._tokens)
        self._tokens.extend(token_ids)
        for index in range(before, len(self._tokens)):
            place = index + self._dropped
            for run, latest, earlier in zip(_RUNS, self._latest, self._earlier, strict=True):
                if place - run + 1 < self._text_start:
                    earlier.append(_NOWHERE)
                    continue
                key = hash(tuple(self._tokens[index - run + 1 : index + 1]))
                earlier.append(latest.get(key, _NOWHERE))
                latest[key] = place

    def end_text(self) -> int:
        """The next token begins another text. How many tokens the ended one has, its end included."""
        self._tokens.append(_END)
        for earlier in self._earlier:
            earlier.append(_NOWHERE)
        length = len(self._tokens) + self._dropped - self._text_start
        self._text_start += length
        return length

    def drop(self, count: int) -> None:
        """The first ``count`` tokens fall out; they are whole texts, as ``end_text`` has counted them."""
        end = self._dropped + count
        for run, latest in zip(_RUNS, self._latest, strict=True):
            for index in range(run - 1, count):
                key = hash(tuple(self._tokens[index - run + 1 : index + 1]))
                if latest.get(key, end) < end:
                    del latest[key]
        del self._tokens[:count]
        for earlier in self._earlier:
            del earlier[:count]
        self._dropped = end

    def find(self, text: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
        """Where something followed what ``text`` ends with: (place of what followed, length of the match).

        At most ``most`` of them, those of longer runs first, of equal runs the latest first. A match is
        measured up to ``LONGEST`` tokens.
        """
        seen: set[int] = set()
        tail = text[-LONGEST:]
        for chain, run in enumerate(_RUNS):
            if run > len(tail):
                continue
            for place in self._walk(chain, hash(tuple(tail[-run:])), most):
                following = place + 1
                if following not in seen and self._followed(place):
                    seen.add(following)
                    length = self._agreement(place, tail)
                    if length >= run:  # else two runs have the same hash
                        yield following, length
                if len(seen) == most:
                    return

    def after(self, place: int, count: int) -> list[int]:
        """Up to ``count`` tokens from there to the end of their text.

        A text that has not ended goes on with what it would repeat.
        """
        start = place - self._dropped
        found = self._tokens[start : start + count].tolist()
        if _END in found:
            return found[: found.index(_END)]
        while len(found) < count:
            found.append(found[len(found) - (len(self._tokens) - start)])
        return found

    def _walk(self, chain: int, key: int, most: int) -> Iterator[int]:
        """Places of a run, the latest first; one more than ``most``, as the latest may be the text's end."""
        place = self._latest[chain].get(key, _NOWHERE)
        for _ in range(most + 1):
            if place < self._dropped:
                return
            yield place
            place = self._earlier[chain][place - self._dropped]

    def _followed(self, place: int) -> bool:
        index = place - self._dropped + 1
        return index < len(self._tokens) and self._tokens[index] != _END

    def _agreement(self, place: int, tail: Sequence[int]) -> int:
        """How many tokens up to ``place`` are those that ``tail`` ends with."""
        index = place - self._dropped
        length = 0
        while length < min(len(tail), index + 1) and self._tokens[index - length] == tail[-1 - length]:
            length += 1
        return length
