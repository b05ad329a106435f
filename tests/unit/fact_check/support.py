"""Short ways to state a text's claims, findings and flags."""

from __future__ import annotations

from collections.abc import Sequence
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
    """A block of ``tokens`` after the committed ``tail``, which was looked at before."""
    ends = tuple(accumulate(map(len, tokens), initial=len(tail)))[1:]
    text = tail + "".join(tokens)
    return DraftRecord("session", block_id, 10, text, len(tail), ends, "test", 0, since=len(tail))


def committed(seen: str, *tail: str, block: Sequence[str] = ()) -> DraftRecord:
    """``tail`` tokens that no record held before, after what was ``seen``, and a block."""
    starts = tuple(accumulate(map(len, tail), initial=len(seen)))[:-1]
    block_start = len(seen) + sum(map(len, tail))
    ends = tuple(accumulate(map(len, block), initial=block_start))[1:]
    text = seen + "".join([*tail, *block])
    return DraftRecord("session", 1, 10, text, block_start, ends, "test", 0, starts, len(seen))


def flags_of(record: DraftRecord) -> tuple[Flag, ...]:
    return tag(record, check(record.text, RULES)).flags
