"""From committed tokens to delivered text, and where an answer ends."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Protocol

from common.types import FinishReason, Stopping

_PROMPT_TAIL = 5
_MOST_TOKENS_OF_A_CHARACTER = 8
_REPLACEMENT = "�"


class Decoder(Protocol):
    def decode(self, token_ids: Sequence[int]) -> str: ...


class Detokenizer:
    """Text as tokens come, never half a character.

    A token's text can depend on the one before it, so a short window is decoded twice, with and without the
    new tokens, and the difference is new text. A window that ends in a replacement character may be an
    incomplete one and waits for more, up to the most tokens one character can take.
    """

    def __init__(self, decoder: Decoder, prompt: Sequence[int]) -> None:
        self._decoder = decoder
        self._window = list(prompt[-_PROMPT_TAIL:])
        self._read = len(self._window)
        self._sent = len(decoder.decode(self._window))

    def push(self, token_id: int) -> str:
        self._window.append(token_id)
        text = self._decoder.decode(self._window)
        if not text.endswith(_REPLACEMENT):
            return self._advance(text)
        if len(self._window) - self._read < _MOST_TOKENS_OF_A_CHARACTER:
            return ""
        # Either characters go on straddling tokens, or the last bytes are no character at all.
        return self._send(text.rstrip(_REPLACEMENT)) or self._advance(text)

    def flush(self) -> str:
        """What is left at the end, incomplete or not."""
        return self._advance(self._decoder.decode(self._window))

    def _advance(self, text: str) -> str:
        """Send the window's text and keep its latest tokens as the context of the next."""
        new = self._send(text)
        self._window = self._window[self._read :]
        self._read = len(self._window)
        self._sent = len(self._decoder.decode(self._window))
        return new

    def _send(self, text: str) -> str:
        new = text[self._sent :]
        self._sent += len(new)
        return new


class StopStrings:
    """Releases text that cannot be part of a stop string any more."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = stop
        self._held = ""

    def push(self, text: str, looking: bool = True) -> tuple[str, bool]:
        """The text that may go out, and whether it completed a stop string: nothing follows it.

        Args:
            looking: whether a stop string may be completed already.
        """
        before = len(self._held)
        self._held += text
        # What is held from before has not completed any, or was not looked at.
        found = (self._held.find(stop, max(before - len(stop) + 1, 0)) for stop in self._stop)
        ends = [at for at in found if at >= 0]
        if ends and looking:
            return self._release(min(ends)), True
        return self._release(len(self._held) - self._partial()), False

    def flush(self) -> str:
        return self._release(len(self._held))

    def _release(self, count: int) -> str:
        released, self._held = self._held[:count], self._held[count:]
        return released

    def _partial(self) -> int:
        """Length of the longest tail that begins a stop string."""
        longest = max(map(len, self._stop), default=1) - 1
        for length in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-length:]) for stop in self._stop):
                return length
        return 0


class Output:
    """One answer: takes tokens one by one and says after which it ends."""

    def __init__(
        self,
        decoder: Decoder,
        prompt: Sequence[int],
        stopping: Stopping,
        eos_token_ids: Set[int],
        max_tokens: int,
    ) -> None:
        self._detokenizer = Detokenizer(decoder, prompt)
        self._stop_strings = StopStrings(stopping.stop)
        self._ends = stopping.stop_token_ids | (frozenset() if stopping.ignore_eos else eos_token_ids)
        self._most = max_tokens
        self._fewest = stopping.min_tokens
        self._count = 0
        self._text = ""

    def push(self, token_id: int) -> FinishReason | None:
        """Why the answer ends with this token; None: it goes on. An ending token adds no text."""
        self._count += 1
        if token_id in self._ends:
            return self._finish(FinishReason.STOP)
        text, stopped = self._stop_strings.push(self._detokenizer.push(token_id), self._looking)
        self._text += text
        if stopped:
            return FinishReason.STOP
        return self._finish(FinishReason.LENGTH) if self._count == self._most else None

    @property
    def _looking(self) -> bool:
        """A stop string counts when a token after the first ``min_tokens`` completes it, as in vLLM."""
        return self._count > self._fewest

    def _finish(self, reason: FinishReason) -> FinishReason:
        """Release what was held back; a stop string may still be completed by it."""
        text, stopped = self._stop_strings.push(self._detokenizer.flush(), self._looking)
        self._text += text if stopped else text + self._stop_strings.flush()
        return FinishReason.STOP if stopped else reason

    def take_text(self) -> str:
        """The text released since the last call."""
        text, self._text = self._text, ""
        return text
