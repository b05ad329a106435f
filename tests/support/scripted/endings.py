"""Every way an answer can end, each at any offset, with a plain reference of what must be delivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from common.types import FinishReason, Stopping
from tests.support.scripted.target import EOS, CharTokenizer

PIECES = (*"abcdefghijklmnopqrstuvwxyz.", "xy", "zx", "yz", "axyz", "zend", b"\xc3", b"\xa9")
TOKENIZER = CharTokenizer(PIECES)
CONTEXT = 64


@dataclass(frozen=True)
class Ending:
    """``pieces`` end the answer once; what comes after them must not be delivered."""

    pieces: tuple[str | bytes, ...] = ()
    stopping: Stopping = field(default_factory=Stopping)
    ends_with_eos: bool = False
    length_limit: bool = False


ENDINGS = {
    "eos": Ending(ends_with_eos=True),
    "eos after half a stop string": Ending(("x", "y"), Stopping(stop=("xyz",)), ends_with_eos=True),
    "eos after half a character": Ending((b"\xc3",), ends_with_eos=True),
    "stop string of one token": Ending(("xy",), Stopping(stop=("xy",))),
    "stop string over two tokens": Ending(("xy", "z"), Stopping(stop=("xyz",))),
    "stop string over three tokens": Ending(("x", "y", "z"), Stopping(stop=("xyz",))),
    "stop string of two halves of a character": Ending((b"\xc3", b"\xa9"), Stopping(stop=("é",))),
    "stop string inside one token": Ending(("axyz",), Stopping(stop=("xy",))),
    "stop string that a token completes and passes": Ending(("xy", "zend"), Stopping(stop=("xyz",))),
    "stop string after a false start": Ending(("x", "xy", "x", "yz"), Stopping(stop=("xyz", "never"))),
    "the earlier of two stop strings": Ending(("xy", "z"), Stopping(stop=("yz", "xyz"))),
    "stop token": Ending((".",), Stopping(stop_token_ids=frozenset(TOKENIZER.ids(".")))),
    "stop token that is also in a stop string": Ending(
        ("x", "."), Stopping(stop=("x.",), stop_token_ids=frozenset(TOKENIZER.ids(".")))
    ),
    "stop string completed by the last of the least tokens": Ending(
        ("xy", "z", ".", "xy", "z"), Stopping(stop=("xyz",), min_tokens=2)
    ),
    "stop string begun among the least tokens": Ending(
        ("b", "x", "y", "z"), Stopping(stop=("xyz", "b"), min_tokens=2)
    ),
    "stop string within the least tokens and a longer one after": Ending(
        ("x", "y", "z", "zend"), Stopping(stop=("x", "xyzz"), min_tokens=1)
    ),
    "max_tokens": Ending(("w",), length_limit=True),
    "max_tokens inside a stop string": Ending(("x", "y"), Stopping(stop=("xyz",)), length_limit=True),
    "max_tokens inside a character": Ending((b"\xc3",), length_limit=True),
    "max_tokens on the stop string's last token": Ending(
        ("xy", "z"), Stopping(stop=("xyz",)), length_limit=True
    ),
    "max_tokens on the end of sequence": Ending(ends_with_eos=True, length_limit=True),
}


@dataclass(frozen=True)
class Expected:
    token_ids: list[int]
    text: str
    reason: FinishReason


def reference(answer: Sequence[int], stopping: Stopping, most: int) -> Expected:
    """The whole text decoded anew after every token, and nothing clever."""
    ends = set(stopping.stop_token_ids) | (set() if stopping.ignore_eos else {EOS})
    for count in range(1, min(len(answer), most) + 1):
        token_ids = list(answer[:count])
        ended = token_ids[-1] in ends
        text = TOKENIZER.decode(token_ids[:-1] if ended else token_ids)
        least = TOKENIZER.decode(token_ids[: stopping.min_tokens])
        found = [
            at
            for stop in stopping.stop
            if count > stopping.min_tokens
            and (at := text.find(stop, max(len(least) - len(stop) + 1, 0) if least else 0)) >= 0
        ]
        if found:
            return Expected(token_ids, text[: min(found)], FinishReason.STOP)
        if ended:
            return Expected(token_ids, text, FinishReason.STOP)
        if count == most:
            return Expected(token_ids, text, FinishReason.LENGTH)
    raise AssertionError("the scripted answer does not end")


def scripted(ending: Ending, offset: int) -> tuple[list[int], list[int], Stopping]:
    """Prompt, answer and stopping, with the ending ``offset`` tokens into the answer. The least tokens are
    counted from where the ending begins."""
    prompt = TOKENIZER.ids(*"prompt", *"abcdefghijklm"[: offset % 13], *"q" * (offset // 13))
    before = TOKENIZER.ids(*"thequickbrownfo"[:offset])
    end = TOKENIZER.ids(*ending.pieces) + [EOS] * ending.ends_with_eos
    stopping = ending.stopping
    if stopping.min_tokens:
        stopping = replace(stopping, min_tokens=stopping.min_tokens + len(before))
    if ending.length_limit:
        stopping = replace(stopping, max_tokens=len(before) + len(end))
    beyond = TOKENIZER.ids(*"jumpsoverthelazydogandthensomemore")
    return prompt, before + end + beyond, stopping
