"""The rules file: plain facts that a claim can contradict."""

from __future__ import annotations

import datetime
import re
from fractions import Fraction
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from common.errors import ConfigError
from fact_check_service import units
from fact_check_service.claims import Claim, Kind, Period, Range, Verdict

DATES = "dates"
"""The dimension of what is no quantity."""

PATH_VARIABLE = "TANDEM_FACT_CHECK_RULES_PATH"


def _compiled(given: object) -> re.Pattern[str]:
    """One expression for one or several; what goes wrong is a ValueError, which pydantic reports."""
    expressions = given if isinstance(given, list) else [given]
    if not expressions or not all(isinstance(expression, str) for expression in expressions):
        raise ValueError("needs a regular expression or a list of them")
    try:
        compiled = re.compile("|".join(f"(?:{expression})" for expression in expressions), re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    if compiled.search(""):
        raise ValueError("matches the empty text")
    return compiled


def _known_unit(name: str) -> str:
    if name not in units.UNITS:
        raise ValueError(f"unknown unit; known are {', '.join(sorted(units.UNITS))}")
    return name


Regex = Annotated[re.Pattern[str], BeforeValidator(_compiled)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Amounts(_Strict):
    """Numbers that are right: from ``min`` to ``max``, or one of ``values``."""

    min: FiniteFloat | None = None
    max: FiniteFloat | None = None
    values: Annotated[list[FiniteFloat] | None, Field(min_length=1)] = None

    @model_validator(mode="after")
    def _one_form(self) -> Amounts:
        bounded = self.min is not None or self.max is not None
        if bounded == (self.values is not None):
            raise ValueError("needs min and/or max, or values")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("min is above max")
        return self

    def allow(self, number: Fraction) -> bool:
        if self.values is not None:
            return any(number == _exactly(value) for value in self.values)
        above = self.min is None or number >= _exactly(self.min)
        return above and (self.max is None or number <= _exactly(self.max))

    def allow_within(self, low: Fraction, high: Fraction) -> bool:
        """Whether a number from ``low`` to ``high`` is right."""
        if self.values is not None:
            return any(low <= _exactly(value) <= high for value in self.values)
        above = self.min is None or high >= _exactly(self.min)
        return above and (self.max is None or low <= _exactly(self.max))


class Days(_Strict):
    """Dates that are right: ``date``, a day from ``first`` to ``last``, or any that ``exists``."""

    date: datetime.date | None = None
    first: datetime.date | None = None
    last: datetime.date | None = None
    exists: Literal[True] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Days:
        given = {name for name, value in self if value is not None}
        if given not in ({"date"}, {"first", "last"}, {"exists"}):
            raise ValueError("needs date, or first and last, or exists: true")
        if self.first and self.last and self.first > self.last:
            raise ValueError("first is after last")
        return self

    def period(self) -> Period | None:
        """The allowed days; None when any day will do."""
        first, last = self.first or self.date, self.last or self.date
        return Period(first, last) if first and last else None


class _Rule(_Strict):
    """A fact about what ``subject`` matches, unless ``unless`` matches in the same sentence too, and only
    where ``also`` does. ``mentions`` are words in lower case, one of which stands wherever ``subject``
    matches: a sentence without any is passed over quickly.

    ``judges`` says which claims of the sentence are about the subject: the one nearest to each match, or
    every one that compares.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    subject: Regex
    also: Regex | None = None
    unless: Regex | None = None
    mentions: Annotated[list[str] | None, Field(min_length=1)] = None
    judges: Literal["nearest", "every"] = "nearest"
    evidence: Annotated[str, Field(min_length=1)]

    def may_apply(self, lowered: str) -> bool:
        """Whether the sentence, given in lower case, may be about the subject."""
        return self.mentions is None or any(word in lowered for word in self.mentions)


class QuantityRule(_Rule):
    kind: Literal["quantity"]
    unit: Annotated[str, AfterValidator(_known_unit)]
    allowed: Amounts

    @cached_property
    def dimension(self) -> str:
        return units.UNITS[self.unit].dimension

    def comparable(self, claim: Claim) -> bool:
        """Whether the claim measures what the rule does; another dimension contradicts nothing."""
        return claim.kind is Kind.QUANTITY and units.comparable(claim.unit, self.unit)

    def compare(self, claim: Claim) -> Verdict:
        """A range is right when both its ends are, and wrong when nothing in it is right."""
        if claim.hedged or not isinstance(claim.value, Fraction | Range):
            return Verdict.UNKNOWN
        ends = (claim.value.low, claim.value.high) if isinstance(claim.value, Range) else (claim.value,) * 2
        low, high = (units.convert(end, claim.unit, self.unit) for end in ends)
        if self.allowed.allow(low) and self.allowed.allow(high):
            return Verdict.SUPPORTED
        return Verdict.UNKNOWN if self.allowed.allow_within(low, high) else Verdict.CONTRADICTED


class DateRule(_Rule):
    kind: Literal["date"]
    allowed: Days
    dimension: ClassVar[str] = DATES

    def comparable(self, claim: Claim) -> bool:
        return claim.kind is Kind.DATE

    def compare(self, claim: Claim) -> Verdict:
        if claim.value is None:
            return Verdict.CONTRADICTED
        allowed = self.allowed.period()
        # That a date exists says nothing about whether it is the right one.
        if claim.hedged or allowed is None or not isinstance(claim.value, Period):
            return Verdict.UNKNOWN
        return Verdict.SUPPORTED if claim.value.overlaps(allowed) else Verdict.CONTRADICTED


Rule = QuantityRule | DateRule
Rules = tuple[Rule, ...]

_RULE: TypeAdapter[Rule] = TypeAdapter(Annotated[Rule, Field(discriminator="kind")])


def load_rules(path: str) -> Rules:
    """The rules of the file at ``path``, or of the packaged one when it is empty.

    Raises:
        ConfigError: naming the variable, the rule and the key at fault.
    """
    try:
        document = yaml.safe_load(_read(path))
    # The safe loader lets a ValueError of an impossible date through.
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise _bad(path, str(error)) from None
    listed = document.get("rules") if isinstance(document, dict) else None
    if not isinstance(listed, list) or len(document) > 1:
        raise _bad(path, "the file is a mapping with one key, rules, that holds a list")
    rules = tuple(_rule(path, number, entry) for number, entry in enumerate(listed, start=1))
    _require_distinct_names(path, rules)
    return rules


def _read(path: str) -> str:
    if path:
        return Path(path).read_text(encoding="utf-8")
    return resources.files("fact_check_service").joinpath("rules.yaml").read_text(encoding="utf-8")


def _rule(path: str, number: int, entry: Any) -> Rule:
    try:
        return _RULE.validate_python(entry)
    except ValidationError as error:
        first = error.errors()[0]
        name = entry.get("name", f"number {number}") if isinstance(entry, dict) else f"number {number}"
        key = ".".join(map(str, first["loc"][1:])) or "kind"
        raise _bad(path, f"rule {name}, key {key}: {first['msg']}") from None


def _require_distinct_names(path: str, rules: Rules) -> None:
    seen: set[str] = set()
    for rule in rules:
        if rule.name in seen:
            raise _bad(path, f"rule {rule.name}, key name: used twice")
        seen.add(rule.name)


def _bad(path: str, what: str) -> ConfigError:
    return ConfigError(f"{PATH_VARIABLE}: {path or 'the packaged rules'}: {what}", field=PATH_VARIABLE)


def _exactly(number: float) -> Fraction:
    """The decimal number as written, so that 0.1 is one tenth."""
    return Fraction(repr(number))
