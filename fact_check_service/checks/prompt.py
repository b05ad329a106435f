"""Claims against what the prompt and its documents say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from fact_check_service.checks.base import Context, Finding
from fact_check_service.config import Config
from fact_check_service.consistency import SourceClaims, judge

_PROMPTS_KEPT = 256  # with what they state; the longest have 65,536 characters


class PromptCheck:
    name = "prompt"

    def __init__(self) -> None:
        self._stated = lru_cache(_PROMPTS_KEPT)(SourceClaims.of)

    async def judge(self, context: Context) -> Sequence[Finding]:
        if not context.prompt:
            return ()
        return judge(context.text, list(context.claims), self._stated(context.prompt), context.since)


def make(config: Config) -> PromptCheck:
    return PromptCheck()
