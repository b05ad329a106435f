"""Short ways to state a text's claims, findings and flags."""

from __future__ import annotations

from itertools import accumulate

from common.streams import DraftRecord, Flag
from fact_check_service.checks.base import EXTRACTORS, Context, Finding
from fact_check_service.checks.rules import judge
from fact_check_service.claims import Claim, extract
from fact_check_service.rules import Rules, load_rules
from fact_check_service.tagging import tag

RULES: Rules = load_rules("")


def check(text: str, rules: Rules = RULES, since: int = 0) -> tuple[Finding, ...]:
    return judge(Context(text, since), rules)


def claims_of(text: str) -> list[Claim]:
    return [claim for _, claims in extract(text, 0, EXTRACTORS) for claim in claims]


def verdicts(text: str, rules: Rules = RULES) -> list[tuple[str, str, str]]:
    """The written claim, its verdict and the rule, for each claim of the text."""
    found = check(text, rules)
    return [(text[slice(*each.claim.span)], each.verdict.value, each.rule) for each in found]


def draft(tail: str, *tokens: str, block_id: int = 1) -> DraftRecord:
    """A block of ``tokens`` after the committed ``tail``."""
    ends = tuple(accumulate(map(len, tokens), initial=len(tail)))[1:]
    return DraftRecord("session", block_id, 10, tail + "".join(tokens), len(tail), ends, "test", 0)


def flags_of(record: DraftRecord) -> tuple[Flag, ...]:
    return tag(record, check(record.text, RULES)).flags
