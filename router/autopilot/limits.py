"""What the autopilot holds drafts to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """
    Attributes:
        acceptance: least share of guesses that are right.
        truncation: most blocks that may end at a position, of those that come there.
        consistency: least closeness in meaning of drafted and final text, a cosine.
        first_token_seconds, late: most answers, as a share, whose first token may take so long.
        quality: least effective rate beside plain answers, where the rate alone is no worse: tokens per
            second times how much likelier the target finds plain answers.
        pays: from this rate beside plain answers on a draft is left alone, whatever else is said of it.
        useless: acceptance below which nothing else has to be known.
        fewest: answers with blocks that a judgement rests on.
        fewest_sampled: of those whose text was compared.
        fewest_plain: plain answers that rates are compared with.
        fewest_watched: answers in shadow after which a resting draft may return.
        fewest_tokens: of an answer whose rate counts.
        patience: answers for which a draft is left alone after a trial that did not help, doubled each time.
        returns: by how much acceptance in shadow must be better than when the draft was set to rest.
        recovers: share of the acceptance that it had while it paid, to which it must come back.
        actions_per_minute: most, over all classes.
        rest_seconds: a draft that was merely slower is tried again after this time, then twice that, and so
            on up to ``longest_rest_seconds``: shadow shows no speed.
    """

    acceptance: float = 0.65
    truncation: float = 0.15
    consistency: float = 0.82
    first_token_seconds: float = 0.8
    late: float = 0.05
    quality: float = 0.97
    pays: float = 1.03
    useless: float = 0.05
    fewest: int = 20
    fewest_sampled: int = 10
    fewest_plain: int = 5
    fewest_watched: int = 10
    fewest_tokens: int = 8
    patience: int = 20
    returns: float = 0.1
    recovers: float = 0.8
    actions_per_minute: int = 12
    rest_seconds: float = 600.0
    longest_rest_seconds: float = 7200.0
