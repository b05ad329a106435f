"""Claims against a file of rules."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from fact_check_service.checks.base import Context, Finding
from fact_check_service.claims import Claim, Verdict
from fact_check_service.config import Config
from fact_check_service.doubt import doubtful
from fact_check_service.rules import DATES, Rule, Rules, load_rules
from fact_check_service.sentences import Span
from fact_check_service.units import UNITS


class RuleCheck:
    name = "rules"

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    async def judge(self, context: Context) -> Sequence[Finding]:
        return judge(context, self._rules)


def make(config: Config) -> RuleCheck:
    return RuleCheck(load_rules(config.rules_path))


def judge(context: Context, rules: Rules) -> tuple[Finding, ...]:
    """A finding for every claim, in order."""
    return tuple(
        finding
        for sentence, claims in context.sentences
        for finding in _judge(context.text, sentence, claims, rules)
    )


def _judge(text: str, sentence: Span, claims: list[Claim], rules: Rules) -> list[Finding]:
    """Support outweighs contradiction: a value right for one rule is not about the other's subject."""
    known: dict[Span, Finding] = {}
    if not doubtful(text, sentence):
        for rule in _applicable(text, sentence, claims, rules):
            for claim, verdict in _opinions(text, sentence, claims, rule):
                if claim.span not in known or verdict is Verdict.SUPPORTED:
                    known[claim.span] = Finding(claim, verdict, rule.name, rule.evidence)
    return [known.get(claim.span, Finding(claim, Verdict.UNKNOWN)) for claim in claims]


def _applicable(text: str, sentence: Span, claims: list[Claim], rules: Rules) -> Iterator[Rule]:
    """The rules that may have something to say: a cheap look before the expensive ones."""
    dimensions = {UNITS[claim.unit].dimension if claim.unit else DATES for claim in claims}
    lowered = text[slice(*sentence)].lower()
    for rule in rules:
        if rule.dimension in dimensions and rule.may_apply(lowered):
            yield rule


def _opinions(text: str, sentence: Span, claims: list[Claim], rule: Rule) -> list[tuple[Claim, Verdict]]:
    """The rule's verdicts on the claims that it judges, the unknown left out."""
    comparable = [claim for claim in claims if rule.comparable(claim)]
    judged = _about_subject(text, sentence, comparable, rule) if comparable else []
    if not judged or (rule.unless and rule.unless.search(text, *sentence)):
        return []
    if rule.also and not rule.also.search(text, *sentence):
        return []
    verdicts = ((claim, rule.compare(claim)) for claim in judged)
    return [(claim, verdict) for claim, verdict in verdicts if verdict is not Verdict.UNKNOWN]


def _about_subject(text: str, sentence: Span, claims: list[Claim], rule: Rule) -> list[Claim]:
    """Those of the claims, all comparable, that are about the rule's subject.

    A sentence that states the right value has it for the subject, wherever it stands ("At 0 °C water
    freezes and at 100 °C it boils"); otherwise the nearest claim to each match is taken for it.
    """
    matches = list(rule.subject.finditer(text, *sentence))
    if not matches or rule.judges == "every":
        return claims if matches else []
    # The 一周 of 一周有七天 is what the rule is about, not a value of it.
    named = {match.start() for match in matches}
    claims = [claim for claim in claims if claim.span.start not in named]
    ends = [match.end() for match in matches] if claims else []
    right = [claim for claim in claims if rule.compare(claim) is Verdict.SUPPORTED]
    return right or list({claim.span: claim for claim in _nearest(claims, ends)}.values())


def _nearest(claims: list[Claim], positions: list[int]) -> Iterator[Claim]:
    starts = [claim.span.start for claim in claims]
    for position in positions:
        after = bisect_left(starts, position)
        neighbours = claims[max(0, after - 1) : after + 1]
        yield min(neighbours, key=lambda claim: _distance(claim.span, position))


def _distance(span: Span, position: int) -> int:
    return span.start - position if span.start >= position else abs(position - span.end)
