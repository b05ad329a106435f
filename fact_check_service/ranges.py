"""Ranges: "5.25%–5.50%", "between 3 and 5 kg", 3至5公里. "Rose from 3% to 5%" states two values instead."""

from __future__ import annotations

import re

from fact_check_service.claims import Range
from fact_check_service.measured import Measured
from fact_check_service.sentences import Span

_TO = re.compile(r"\s?[-–—~～]\s?|\s?[至到]\s?|\sto\s|(?P<both>\sand\s|\s?[和与]\s?)")
_BETWEEN = re.compile(r"(?:\bbetween|介于|在)\s?$", re.IGNORECASE)
_FROM = re.compile(r"\bfrom\s?$", re.IGNORECASE)
_RANGING = re.compile(
    r"\b(?:rang(?:e|es|ed|ing)|var(?:y|ies|ied|ying)|anywhere)\s(?:in\s\w{1,20}\s)?from\s?$", re.IGNORECASE
)
_LONGEST_LEAD = 40
_UNFINISHED_CONNECTIVES = frozenset({" ", " t", " to", " a", " an", " and"})
_UNFINISHED_END = re.compile(r"[^\s]{0,40}+(?:[\s-]\w{0,12}){0,2}+")
_LONGEST_END = 60


def joined(text: str, sentence: Span, low: Measured, high: Measured | None) -> Range | None:
    """The range that two numbers with one unit make up; the unit may stand at one of them alone."""
    to = _TO.match(text, low.span.end, sentence.end)
    if to is None or high is None or to.end() != high.span.start or high.open:
        return None
    lead = text[max(sentence.start, low.span.start - _LONGEST_LEAD) : low.span.start]
    if (to["both"] and not _BETWEEN.search(lead)) or (_FROM.search(lead) and not _RANGING.search(lead)):
        return None
    if not _one_unit(low, high):
        return None
    ends = _ends(low, high)
    return ends if ends.low < ends.high else None


def may_follow(text: str, this: Measured, following: Measured | None) -> bool:
    """Whether what comes behind a quantity at the end of the text may still make it a range."""
    if len(text) - this.span.end > _LONGEST_END or this.span.end == len(text):
        return False
    rest = text[this.span.end :]
    to = _TO.match(rest)
    if to is None:
        return rest in _UNFINISHED_CONNECTIVES
    starts_there = following is not None and following.span.start == this.span.end + to.end()
    if following is not None and starts_there and following.unit:
        return following.open
    return _UNFINISHED_END.fullmatch(rest, to.end()) is not None


def _one_unit(low: Measured, high: Measured) -> bool:
    """ "$5–6 million" has its currency in front, "3–5 kg" its unit behind."""
    if low.numeral.currency and not high.unit:
        return True
    if high.numeral.currency and not low.numeral.currency:
        return False
    return high.unit != "" and low.unit in {"", high.unit}


def _ends(low: Measured, high: Measured) -> Range:
    """The scale behind the second number is the first one's too: "$5–6 million", 3到5万人."""
    scale = high.numeral.scale if low.numeral.scale == 0 else 0
    scaled, last = low.number.scaled(scale).value(), high.number.value()
    return Range(scaled if scaled < last else low.number.value(), last)
