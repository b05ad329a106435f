"""Several checks together: who is heard, and what one that hangs or fails costs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, EntryPoints

import pytest
from prometheus_client import REGISTRY

from common.errors import ConfigError
from fact_check_service.checks import registry
from fact_check_service.checks.base import Context, Finding
from fact_check_service.checks.checker import Checker
from fact_check_service.claims import Verdict
from fact_check_service.config import Config

TEXT = "The tower is 300 m high and 5 km away."
SUPPORTED, CONTRADICTED, UNKNOWN = Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.UNKNOWN


class Opinions:
    """Says of each claim in turn what it was told to."""

    def __init__(self, name: str, *verdicts: Verdict, first: Callable[[], object] = lambda: None) -> None:
        self.name = name
        self._verdicts = verdicts
        self._first = first

    async def judge(self, context: Context) -> Sequence[Finding]:
        made = self._first()
        if asyncio.iscoroutine(made):
            await made
        claims = list(context.claims)
        return [Finding(c, v, self.name) for c, v in zip(claims, self._verdicts, strict=False)]


def fail() -> None:
    raise ZeroDivisionError


def hang() -> object:
    return asyncio.sleep(60)


def failures(check: str, why: str) -> float:
    name = "tandem_fact_check_check_failures_total"
    return REGISTRY.get_sample_value(name, {"check": check, "why": why}) or 0.0


async def said(*checks: Opinions) -> list[tuple[str, str]]:
    found = await Checker(checks, 0.05).check(Context(TEXT))
    return [(finding.verdict.value, finding.check) for finding in found]


async def test_of_each_claim_the_first_check_with_an_opinion_is_heard() -> None:
    one = Opinions("one", UNKNOWN, SUPPORTED)
    other = Opinions("other", CONTRADICTED, CONTRADICTED)
    assert await said(one, other) == [("contradicted", "other"), ("supported", "one")]
    assert await said(other, one) == [("contradicted", "other"), ("contradicted", "other")]


async def test_findings_come_in_the_order_of_the_text_and_what_nobody_knows_is_unknown() -> None:
    found = await said(Opinions("one", UNKNOWN), Opinions("other", UNKNOWN, UNKNOWN))
    assert [verdict for verdict, _ in found] == ["unknown", "unknown"]
    assert await said() == []


@pytest.mark.parametrize(("first", "why"), [(fail, "failed"), (hang, "late")])
async def test_a_check_that_fails_or_hangs_has_no_opinion_is_counted_and_stops_no_other(
    first: Callable[[], object], why: str
) -> None:
    before = failures("bad", why)
    found = await said(Opinions("bad", SUPPORTED, first=first), Opinions("good", CONTRADICTED))
    assert found == [("contradicted", "good")]
    assert failures("bad", why) == before + 1


def test_checks_are_made_in_the_order_of_their_names() -> None:
    assert [check.name for check in registry.make_all(Config(checks=("prompt", "rules")))] == [
        "prompt",
        "rules",
    ]


def test_an_unknown_check_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match="'guesses' is none of rules, prompt") as refused:
        registry.make_all(Config(checks=("guesses",)))
    assert refused.value.field == "TANDEM_FACT_CHECK_CHECKS"


def make_opinions(config: Config) -> Opinions:
    return Opinions("theirs")


def test_another_package_may_bring_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("theirs", f"{__name__}:make_opinions", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda **_: EntryPoints([point]))
    (check,) = registry.make_all(Config(checks=("theirs",)))
    assert check.name == "theirs"
