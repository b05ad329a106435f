"""All checks of a deployment on one text, in bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from common import logging
from fact_check_service import metrics
from fact_check_service.checks.base import Check, Context, Finding
from fact_check_service.claims import Kind, Verdict
from fact_check_service.sentences import Span

log = logging.get("checks")


class Checker:
    """Every check is asked; of a claim the first in order that has an opinion is heard."""

    def __init__(self, checks: Sequence[Check], timeout_seconds: float) -> None:
        """
        Args:
            timeout_seconds: longest that each check may take for a text. What takes longer, or fails, is
                counted and has no opinion.
        """
        self._checks = checks
        self._timeout_seconds = timeout_seconds

    async def check(self, context: Context) -> list[Finding]:
        """A finding for every claim that was found, in the order of the text."""
        found: dict[tuple[Span, Kind], Finding] = {}
        opinions = [await self._ask(check, context) for check in self._checks]
        for finding in (one for each in opinions for one in each):
            place = finding.claim.span, finding.claim.kind
            if place not in found or found[place].verdict is Verdict.UNKNOWN:
                found[place] = finding
        return sorted(found.values(), key=lambda finding: finding.claim.span)

    async def _ask(self, check: Check, context: Context) -> Sequence[Finding]:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return [replace(finding, check=check.name) for finding in await check.judge(context)]
        except TimeoutError:
            metrics.CHECK_FAILURES.labels(check.name, "late").inc()
        except Exception:
            metrics.CHECK_FAILURES.labels(check.name, "failed").inc()
            log.exception("a check failed", check=check.name)
        return ()
