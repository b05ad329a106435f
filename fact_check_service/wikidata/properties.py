"""The properties that are compared, the words that name them, and units by their items."""

from __future__ import annotations

from dataclasses import dataclass

from fact_check_service.knowledge.facts import COUNT, DATE, named_by
from fact_check_service.units import UNITS


@dataclass(frozen=True, slots=True)
class Property:
    """``varies``: another source counts a little more or less, or did so in another year."""

    id: str
    name: str
    dimension: str
    named_by: tuple[frozenset[str], ...]
    varies: bool = False


def _property(number: str, name: str, dimension: str, *words: str, varies: bool = False) -> Property:
    return Property(number, name, dimension, named_by("|".join(words)), varies)


PROPERTIES = (
    _property("P1082", "population", COUNT, "population", "people", "人口", varies=True),
    _property("P2044", "elevation", "length", "elevation", "海拔"),
    _property("P2046", "area", "area", "area", "面积", varies=True),
    _property("P2048", "height", "length", "height", "高度"),
    _property("P2043", "length", "length", "length", "长度"),
    _property("P571", "inception", DATE, "inception", "founded", "成立"),
    _property("P569", "date of birth", DATE, "born", "出生"),
    _property("P570", "date of death", DATE, "died", "去世"),
)
BY_ID = {listed.id: listed for listed in PROPERTIES}

UNITS_BY_ITEM = {
    "1": COUNT,
    "Q174789": "millimetre",
    "Q174728": "centimetre",
    "Q11573": "metre",
    "Q828224": "kilometre",
    "Q218593": "inch",
    "Q3710": "foot",
    "Q482798": "yard",
    "Q253276": "mile",
    "Q1811": "astronomical_unit",
    "Q531": "light_year",
    "Q25343": "square_metre",
    "Q712226": "square_kilometre",
    "Q857027": "square_foot",
    "Q232291": "square_mile",
    "Q35852": "hectare",
    "Q81292": "acre",
}


def dimension_of(unit: str) -> str:
    """Of a claim's unit; that of a date is its own."""
    return UNITS[unit].dimension if unit else DATE
