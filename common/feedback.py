"""What verify replicas report of finished answers, through the Redis stream ``streams.FEEDBACK``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict, NonNegativeFloat, NonNegativeInt, TypeAdapter

from common import streams


@dataclass(frozen=True, slots=True)
class Drafted:
    """What one draft replica did for an answer, as the verify replica saw it.

    Attributes:
        pool: its name as the plan had it.
        blocks: that came and had guesses.
        bad_blocks: that broke the rules of the stream, or a session that it refused.
        missed_waits: blocks that were waited for in vain.
        seconds: that its blocks were waited for, or would have been.
        offered: by position, the blocks that came that far and had a guess there, or nothing more to add.
        accepted: by position, those of them that were right.
    """

    __pydantic_config__: ClassVar[ConfigDict] = streams.EXACT

    pool: str
    address: str
    blocks: NonNegativeInt = 0
    bad_blocks: NonNegativeInt = 0
    missed_waits: NonNegativeInt = 0
    seconds: NonNegativeFloat = 0.0
    offered: tuple[NonNegativeInt, ...] = ()
    accepted: tuple[NonNegativeInt, ...] = ()


@dataclass(frozen=True, slots=True)
class FeedbackRecord:
    """How one answer went, for whoever decides on the next ones. Nothing of its text is in it.

    Times are in seconds. Those of steps are shares: of a step's whole time, by the rows that the answer had
    in its pass.

    Attributes:
        prompt_class: what the router took the request for.
        shadow: its drafts were only watched.
        lossy: a policy was allowed to stray from the target.
        drafts: in the order in which they were opened; empty: nobody drafted.
        plain_tokens, plain_seconds: of steps without guesses.
        speculated_tokens, speculated_seconds: of steps with guesses.
        first_token_seconds: since the request was taken; 0: none came.
        total_seconds: since then.
        log_probability: sum over ``scored_tokens`` of what the target thought of them; such answers are
            sampled.
        scored_tokens: 0: the answer was not sampled.
        consistency: cosine of what the drafts wrote and of what the answer says in its place, sampled too.
        finished: it came to its end; False: cancelled, or an error.
        created_ms: milliseconds of unix time.
    """

    __pydantic_config__: ClassVar[ConfigDict] = streams.EXACT

    prompt_class: str
    created_ms: NonNegativeInt
    drafts: tuple[Drafted, ...] = ()
    shadow: bool = False
    lossy: bool = False
    plain_tokens: NonNegativeInt = 0
    plain_seconds: NonNegativeFloat = 0.0
    speculated_tokens: NonNegativeInt = 0
    speculated_seconds: NonNegativeFloat = 0.0
    first_token_seconds: NonNegativeFloat = 0.0
    total_seconds: NonNegativeFloat = 0.0
    log_probability: float = 0.0
    scored_tokens: NonNegativeInt = 0
    consistency: float | None = None
    finished: bool = True

    @property
    def tokens(self) -> int:
        return self.plain_tokens + self.speculated_tokens

    @property
    def seconds(self) -> float:
        """Of verify time, decoding only."""
        return self.plain_seconds + self.speculated_seconds


_FEEDBACK = TypeAdapter(FeedbackRecord)


def decode_feedback(fields: Mapping[bytes, bytes]) -> FeedbackRecord:
    """Raises InvalidRequest for an entry that is not a feedback record."""
    return streams.decode(_FEEDBACK, fields)
