"""Labelled sentences: reading them, and how well the checks do on them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from fact_check_service import units
from fact_check_service.checks.base import EXTRACTORS
from fact_check_service.claims import Claim, Kind, Period, Range, Value, Verdict, YearlyDay, extract
from fact_check_service.consistency import SourceClaims, judge
from fact_check_service.names import names
from tests.unit.fact_check.support import RULES, check

FOLDER = Path(__file__).parents[2] / "data" / "facts"


@dataclass(frozen=True, slots=True)
class Counts:
    """Of what was looked for: found, found though it is not there, and missed."""

    found: int
    wrong: int
    missed: int

    @property
    def precision(self) -> float:
        return self.found / max(1, self.found + self.wrong)

    @property
    def recall(self) -> float:
        return self.found / max(1, self.found + self.missed)


def load(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def _whole(example: dict[str, Any]) -> str:
    """The text as it stands in an answer that goes on: nothing in it can grow any more."""
    return f"{example['text']}\n"


def contradictions(example: dict[str, Any]) -> list[str]:
    """What the rules and the comparison with the prompt contradict together, each span once."""
    text = _whole(example)
    claims = [claim for _, listed in extract(text, 0, EXTRACTORS) for claim in listed]
    findings = [*check(text, RULES), *judge(text, claims, SourceClaims.of(example["prompt"]))]
    spans = {finding.claim.span for finding in findings if finding.verdict is Verdict.CONTRADICTED}
    return [text[slice(*span)] for span in sorted(spans)]


def same_words(one: str, other: str) -> bool:
    """ "50" is what "50 units" says of which the count is claimed."""
    return one in other or other in one


def score_contradictions(examples: Iterable[dict[str, Any]]) -> tuple[Counts, list[str]]:
    """The counts, and what went wrong in words."""
    found = wrong = missed = 0
    faults = []
    for example in examples:
        given, expected = contradictions(example), list(example["contradicted"])
        for written in given:
            hit = next((each for each in expected if same_words(written, each)), None)
            if hit is None:
                wrong += 1
                faults.append(f"{example['id']}: {written!r} is not contradicted: {example['text']}")
            else:
                found += 1
                expected.remove(hit)
        missed += len(expected)
        faults += [f"{example['id']}: {each!r} was missed: {example['text']}" for each in expected]
    return Counts(found, wrong, missed), faults


def score_claims(examples: Iterable[dict[str, Any]]) -> tuple[Counts, list[str]]:
    """Recall of the claims; what is found beyond them is not wrong."""
    found = missed = 0
    faults = []
    for example in examples:
        text = _whole(example)
        claims = [claim for sentence, listed in _claims(text) for claim in listed]
        for wanted in example["claims"]:
            if any(_is(text, claim, wanted) for claim in claims):
                found += 1
            else:
                missed += 1
                faults.append(f"{example['id']}: {wanted} in {text}")
    return Counts(found, 0, missed), faults


def _claims(text: str) -> Iterator[tuple[object, list[Claim]]]:
    return extract(text, 0, (*EXTRACTORS, names))


def _is(text: str, claim: Claim, wanted: dict[str, str]) -> bool:
    if claim.kind.value != wanted["kind"] or not same_words(text[slice(*claim.span)], wanted["text"]):
        return False
    if claim.kind is Kind.NAME:
        return True
    unit = wanted["unit"]
    if claim.kind is Kind.QUANTITY and unit:
        return units.comparable(claim.unit, unit) and _written(claim.value, claim.unit, unit) == _read(
            wanted["value"]
        )
    return _written(claim.value, claim.unit, claim.unit) == _read(wanted["value"])


def _written(value: Value | None, unit: str, wanted: str) -> object:
    if isinstance(value, Fraction):
        return units.convert(value, unit, wanted)
    if isinstance(value, Range):
        return units.convert(value.low, unit, wanted), units.convert(value.high, unit, wanted)
    if isinstance(value, Period):
        return (
            (value.first.isoformat(),)
            if value.first == value.last
            else (value.first.isoformat(), value.last.isoformat())
        )
    return f"--{value.month:02}-{value.day:02}" if isinstance(value, YearlyDay) else ""


def _read(value: str) -> object:
    if ".." in value:
        low, high = value.split("..")
        return Fraction(low), Fraction(high)
    if value.startswith("--") or not value:
        return value
    if value.count("-") >= 2:
        return tuple(dict.fromkeys(value.split("/")))
    return Fraction(value)
