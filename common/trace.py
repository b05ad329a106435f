"""How an answer came to be: for every verify step what was drafted, what became of it, and what it took."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Fate(enum.Enum):
    """What became of a guess."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"  # the target said something else in its place
    UNREACHED = "unreached"  # verified, but the text went another way before it, or ended
    UNSURE = "unsure"  # left out for want of confidence
    INVALID = "invalid"  # cut off by a validator
    VETOED = "vetoed"  # cut off for a flag of the fact check
    UNVERIFIED = "unverified"  # no room in the pass or in the answer


@dataclass(frozen=True, slots=True)
class TraceGuess:
    """One guess of a drafted block.

    Attributes:
        text: of the token; not always whole characters.
        parent: the guess that it follows, by its place in the block; -1: the committed text.
        source: who made it, as pool or pool/source.
        q: the probability that the draft declares; None: it declares none.
        p: the target's probability of it; None: the target was not asked, as something before it fell.
        confidence: how sure the draft is that it will stand; None: it does not say.
    """

    token_id: int
    text: bytes
    parent: int
    source: str
    fate: Fate
    q: float | None = None
    p: float | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class TraceFlag:
    """A claim that a fact check contradicts, in guesses ``first_guess`` up to, not including, ``end_guess``;
    below 0 are committed tokens, -1 the last of them."""

    first_guess: int
    end_guess: int
    text: str
    rule: str
    evidence: str


@dataclass(frozen=True, slots=True)
class TraceTimes:
    """Seconds. ``started`` counts from when the request was taken; the others are lengths.

    Attributes:
        wait: the step waited for drafts, validators and verdicts.
        model: the pass over the whole batch.
        accept: judging all of its blocks.
        drafting: as the draft says.
        round_trip: from when the block was asked for to when it came; 0: it was there already.
    """

    started: float
    wait: float
    model: float
    accept: float
    drafting: float = 0.0
    round_trip: float = 0.0


@dataclass(frozen=True, slots=True)
class TraceStep:
    """A step of one answer that yielded tokens, those of the delta it comes with.

    Attributes:
        first_token: of the output.
        texts: of the delta's tokens; not always whole characters.
        p: the target's probability of each of them.
        guesses: the block, if any was there, whatever became of it.
        ahead: the block had been sent before it was asked for.
        batch: answers in the pass, this one included.
        rows: tokens in the pass.
    """

    first_token: int
    texts: tuple[bytes, ...]
    p: tuple[float, ...]
    times: TraceTimes
    batch: int
    rows: int
    guesses: tuple[TraceGuess, ...] = ()
    model_version: str = ""
    ahead: bool = False
    flags: tuple[TraceFlag, ...] = ()
