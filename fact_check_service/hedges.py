"""Words around a number that make it a bound ("over 8,000 m") or approximate ("about 8,000 m")."""

from __future__ import annotations

import re
from typing import NamedTuple

from fact_check_service.sentences import Span
from fact_check_service.word_lists import listed

_HEDGE = re.compile(
    r"(?:\b(?:(?:more|less|fewer|other|(?:great|high|low|larg|small|long|short|tall|bett)er) than"
    r"|over|above|under|below|beyond|within|at (?:least|most)|up to|nearly|almost|exceed(?:s|ed|ing)?"
    r"|as (?:much|little|low|high|many|few) as|(?:minimum|maximum) of)|[<>≤≥~≈±]"
    r"|超过|超出|多于|高于|大于|少于|低于|小于|不到|不足|不超过|不低于|不少于|至少|至多|最多|最少|将近|接近|突破"
    r"|[超逾近]|上限为?|下限为?)"
    r"\s*(?:about |around |roughly |approximately |约|了)?$",
    re.IGNORECASE,
)
_APPROXIMATE = re.compile(
    r"(?:\b(?:about|around|roughly|approximately|approx\.?|some|circa|ca\.?|an? estimated"
    r"|close to)\s*(?:the )?"
    r"|大约|大概|约为?|约合|左右|[~≈])\s*$",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"[ ]?(?:(?P<bound>以上|以下|以内|之内|or (?:more|less|fewer)\b)|(?P<around>左右|上下|or so\b))"
)
_LONGEST_HEDGE = 40
_OVER = re.compile(r"\bover\s*$", re.IGNORECASE)
_NOT_BELOW = re.compile(
    r"(?:\b(?<!no )(?:more|(?:great|high|larg|long|tall)er) than|\b(?:at least|above|beyond)"
    r"|\b(?:exceed(?:s|ed|ing)?|minimum of)"
    r"|\b(?:is|was|are|were|be|took|takes|lasts?|lasted|of|with) over"
    r"|(?<!不)(?:超过|超出|多于|高于|大于)|不低于|不少于|至少|最少|突破|[超逾]|下限为?)\s*$",
    re.IGNORECASE,
)
_NOT_ABOVE = re.compile(
    r"(?:\b(?:(?:less|fewer|(?:low|small|short)er|no more) than|below|at most|up to|nearly|almost|maximum of)"
    r"|\b(?:is|was|are|were|be|took|takes|lasts?|lasted|of|in|costs?) under"
    r"|少于|低于|小于|不到|不足|不超过|不多于|至多|最多|将近|接近|上限为?)\s*$",
    re.IGNORECASE,
)
# One of these ends what stands before a hedged number: most numbers are done with here.
_LAST_WORDS = listed(
    "than over above under below beyond within most least to nearly almost exceed exceeds exceeded"
    " exceeding as"
    " of about around roughly approximately approx approx. some circa ca ca. estimated the"
)
_LAST_CHARACTERS = frozenset("<>≤≥~≈±过出于到足少多近破超逾了约为合限概")


class Hedges(NamedTuple):
    bound: bool
    around: bool


NONE = Hedges(False, False)


def hedges(text: str, sentence: Span, span: Span) -> Hedges:
    """What the words around ``span`` make of the number in it."""
    before = text[max(sentence.start, span.start - _LONGEST_HEDGE) : span.start]
    after = _AFTER.match(text, span.end, sentence.end)
    found = _before(before)
    if after is None:
        return found
    return Hedges(found.bound or after["bound"] is not None, found.around or after["around"] is not None)


def least_and_most(text: str, sentence: Span, span: Span, *, lasts: bool) -> tuple[bool, bool]:
    """Whether the words around the number say that it is the least, or the most, that can be.

    What ``lasts`` may go on "over ten years" that are exact.
    """
    before = text[max(sentence.start, span.start - _LONGEST_HEDGE) : span.start]
    behind = text[span.end : min(span.end + 8, sentence.end)].lstrip()
    over = not lasts and _OVER.search(before) is not None
    least = over or _NOT_BELOW.search(before) is not None or behind.startswith(("以上", "or more"))
    most = _NOT_ABOVE.search(before) is not None or behind.startswith(("以下", "以内", "or less", "or fewer"))
    return least, most


def _before(before: str) -> Hedges:
    stripped = before.rstrip()
    last_word = stripped[stripped.rfind(" ") + 1 :].lower()
    if last_word not in _LAST_WORDS and stripped[-1:] not in _LAST_CHARACTERS:
        return NONE
    return Hedges(_HEDGE.search(before) is not None, _APPROXIMATE.search(before) is not None)
