"""Which case a claim is of: that of another subject, of a forecast, of a change or of what came before it.

Only words that belong to no one subject tell: "its rival", "is expected", "by", "up from".
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass

from fact_check_service import chinese, units
from fact_check_service.claims import Claim, Kind
from fact_check_service.sentences import Span

_OTHER = re.compile(
    r"\b(?:an?other|others?|rivals?|competitors?|peers?|neighbou?r(?:s|ing)?|counterparts?|predecessors?|successors?"
    r"|brothers?|sisters?|siblings?|twins?|cousins?|uncles?|aunts?|fathers?|mothers?|parents?|sons?|daughters?"
    r"|wife|husband|widow|nephews?|nieces?|colleagues?|elsewhere|nearby|unlike|upstream|downstream"
    r"|(?:by|in) (?:contrast|comparison)|further (?:north|south|east|west|up|down))\b"
    r"|另一|另外|其他|其它|别的|对手|同行|同业|竞争者|友商|竞品|相邻|邻近|毗邻|邻[国省市县区居村]|附近的|隔壁|旁边的"
    r"|[上下]游的|[东南西北][面边侧部]的|前任|继任|前身|相比之下|与此相反|与之相反|不同的是|同类|同期的"
    r"|(?:[其他她]的?|的)(?:哥哥|弟弟|姐姐|妹妹|兄长|兄|弟|姐|妹|父亲?|母亲?|儿子|女儿|妻子?|丈夫|叔叔|同事)",
    re.IGNORECASE,
)
_FORECAST = re.compile(
    r"\b(?:forecasts?|forecasted|expect(?:s|ed|ing|ations?)?|predict(?:s|ed|ions?)?|project(?:ed|ions?)|guidance|outlook"
    r"|targets?|targeted|goals?|aim(?:s|ed|ing)?|plans?|planned|anticipat(?:es?|ed)|consensus|hop(?:es|ed)|budgeted)\b"
    r"|预计|预期|预测|预估|预报|预告|指引|目标|计划|有望|展望|力争",
    re.IGNORECASE,
)
_FILLER = (
    r"(?:(?:about|around|roughly|approximately|nearly|almost|some|only|just|over|more than|an average of) )?"
)
_CHANGE = re.compile(
    rf"\bby {_FILLER}$"
    r"|(?:增[加长]|减少|多|少|上升|下降|上涨|下跌|提[高升]|降低|上调|下调|领先|落后|快|慢|相差|差)了?(?:约|近|超过?)?$",
    re.IGNORECASE,
)
_CHANGE_BEHIND = re.compile(
    r" (?:ahead|behind|apart|(?:more|less|fewer|higher|lower|faster|slower|older|younger|longer|shorter"
    r"|taller|heavier|lighter|larger|smaller|bigger|earlier|later) than)\b"
)
_LEVEL = re.compile(
    rf"\b(?:in|at|to|is|was|were|are|for|cost|costs|weighs|weighed|totalled|totaled|averaged) {_FILLER}$"
    r"|(?:为|达到?|[升降增减跌涨]?至|到|是|有|[长高重])约?$",
    re.IGNORECASE,
)
_BASE = re.compile(
    r"(?:\b(?:above|below|beyond|than|against|versus|over|under) (?:the|an?|its|their) (?:[a-z-]+ ){1,3}of $)"
    rf"|(?:\b(?:from|compared (?:with|to)|against|versus|vs\.?|than(?: the)?) (?:[a-z]+ )?{_FILLER}$)"
    r"|(?:由|从|高于|低于|多于|少于|(?<![同环])比)[^，。；、至到]{0,16}$",
    re.IGNORECASE,
)
_EARLIER = re.compile(
    r"\b(?:(?:a|one) (?:year|quarter|month|week) (?:earlier|ago|before)"
    r"|(?:previous|prior|preceding|year-earlier))\b|[年季月]同期|前一[年季月]|上一[年季]",
    re.IGNORECASE,
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SEASON = re.compile(
    r"\b(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
    r"(?:uary|ruary|ch|il|e|y|ust|t|tember|ober|ember)?\b"
    r"|\b(?P<quarter>first|second|third|fourth)[- ]quarter\b"
    r"|\bQ(?P<q>[1-4])\b|(?P<zh_quarter>[一二三四1-4])季度"
    r"|(?<![0-9十个])(?P<zh_month>1?[0-9]|十?[一二三四五六七八九]|十)月(?![球内])"
)
_QUARTERS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "一": 1, "二": 2, "三": 3, "四": 4}
_JOINT = re.compile(r"\s?(?:and\s|又|零)?")
_LONGEST_LEAD = 40


class Role(enum.Enum):
    """What a number is to what the clause speaks of."""

    LEVEL = "level"
    CHANGE = "change"
    BASE = "base"
    REST = "rest of what two quantities state together"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Case:
    """``forecast`` in the claim's own clause, ``forecast_before`` in it or in what leads up to it."""

    other: frozenset[str]
    forecast: bool
    forecast_before: bool
    earlier: bool
    role: Role
    seasons: frozenset[str]


def case_of(text: str, claim: Claim, clause: Span, claims: Iterable[Claim]) -> Case:
    upto = claim.sentence.start, clause.end
    return Case(
        frozenset(found.group().lower() for found in _OTHER.finditer(text, *upto)),
        _FORECAST.search(text, *clause) is not None,
        _FORECAST.search(text, *upto) is not None,
        _EARLIER.search(text, *clause) is not None,
        Role.REST if _is_rest(text, claim, claims) else _role(text, claim, clause),
        _seasons(text, clause, claims),
    )


def one_case(draft: Case, stated: Case, *, dates: bool = False) -> bool:
    """Whether the two may be of one case, as far as these words tell; a date set may be a date due."""
    if draft.other != stated.other or (not dates and _other_mode(draft, stated)):
        return False
    if draft.seasons and stated.seasons and draft.seasons.isdisjoint(stated.seasons):
        return dates
    roles = {draft.role, stated.role}
    if draft.earlier != stated.earlier and Role.CHANGE not in roles:
        return False
    return len(roles) == 1 or (Role.UNKNOWN in roles and roles.isdisjoint({Role.REST, Role.BASE}))


def _seasons(text: str, clause: Span, claims: Iterable[Claim]) -> frozenset[str]:
    """Months and quarters that the clause names without a year."""
    dated = {place for claim in claims if claim.kind is Kind.DATE for place in range(*claim.span)}
    return frozenset(
        _season(found) for found in _SEASON.finditer(text, *clause) if found.start() not in dated
    )


def _season(found: re.Match[str]) -> str:
    if found["month"]:
        return f"month {_MONTHS.index(found['month']) + 1}"
    if found["zh_month"]:
        number = chinese.parse(found["zh_month"])
        return f"month {number.value() if number else 0}"
    quarter = found["quarter"] or found["q"] or found["zh_quarter"]
    return f"quarter {_QUARTERS.get(quarter, quarter)}"


def _other_mode(draft: Case, stated: Case) -> bool:
    """Whether one is what was expected and the other what came."""
    return (draft.forecast_before and not stated.forecast_before) or (
        stated.forecast and not draft.forecast_before
    )


def _is_rest(text: str, claim: Claim, claims: Iterable[Claim]) -> bool:
    """Whether it is the 38 seconds of "14 minutes 38 seconds"."""
    return claim.kind is Kind.QUANTITY and any(
        other.span.end <= claim.span.start
        and _JOINT.fullmatch(text, other.span.end, claim.span.start)
        and other.kind is Kind.QUANTITY
        and units.comparable(other.unit, claim.unit)
        for other in claims
    )


def _role(text: str, claim: Claim, clause: Span) -> Role:
    before = text[max(clause.start, claim.span.start - _LONGEST_LEAD) : claim.span.start]
    if _CHANGE.search(before) or _CHANGE_BEHIND.match(text, claim.span.end, clause.end):
        return Role.CHANGE
    if not claim.hedged and _BASE.search(before):
        return Role.BASE
    return Role.LEVEL if _LEVEL.search(before) else Role.UNKNOWN
