"""Lookahead that is there in every pass, paying or not."""

from __future__ import annotations

from verify_service.drafts.control.trial import Trial
from verify_service.drafts.lookahead.lookahead import Lookahead


class _Always(Trial):
    def __init__(self) -> None:
        super().__init__(2)
        self.way = 1

    def observe(self, tokens: int, seconds: float) -> None:
        return


def always_looking(width: int = 4, ngram: int = 4) -> Lookahead:
    return Lookahead(width, ngram, make_trial=_Always)
