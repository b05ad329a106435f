from __future__ import annotations

import datetime
from typing import Any

import pytest

from fact_check_service.claims import Period
from fact_check_service.sentences import Span
from fact_check_service.wikidata.addresses import public
from fact_check_service.wikidata.items import item
from fact_check_service.wikidata.subjects import subjects


def stated(value: dict[str, Any], rank: str = "normal") -> dict[str, Any]:
    return {"rank": rank, "mainsnak": {"datavalue": {"value": value}}}


def time(written: str, precision: int, calendar: str = "Q1985727") -> dict[str, Any]:
    return {
        "time": written,
        "precision": precision,
        "calendarmodel": f"http://www.wikidata.org/entity/{calendar}",
    }


def amount(written: str, unit: str = "1", **bounds: str) -> dict[str, Any]:
    return {
        "amount": written,
        "unit": unit if unit == "1" else f"http://www.wikidata.org/entity/{unit}",
        **bounds,
    }


def values_of(number: str, *statements: object) -> list[object]:
    return [
        each.claim.value for each in item("Q1", {"claims": {number: list(statements)}}, "en").statements()
    ]


def days(first: str, last: str) -> Period:
    return Period(datetime.date.fromisoformat(first), datetime.date.fromisoformat(last))


@pytest.mark.parametrize(
    ("value", "period"),
    [
        (time("+1879-03-14T00:00:00Z", 11), days("1879-03-14", "1879-03-14")),
        (time("+1879-03-00T00:00:00Z", 10), days("1879-03-01", "1879-03-31")),
        (time("+1879-00-00T00:00:00Z", 9), days("1879-01-01", "1879-12-31")),
        (time("+1879-00-00T00:00:00Z", 8), days("1870-01-01", "1879-12-31")),
        (time("+1900-00-00T00:00:00Z", 7), days("1801-01-01", "1900-12-31")),
        (time("+1642-12-25T00:00:00Z", 11, "Q1985786"), days("1642-12-25", "1643-01-07")),
    ],
)
def test_a_time_is_no_more_precise_than_it_says(value: dict[str, Any], period: Period) -> None:
    assert values_of("P569", stated(value)) == [period]


@pytest.mark.parametrize(
    "value",
    [
        time("-0044-03-15T00:00:00Z", 11),
        time("+1879-02-30T00:00:00Z", 11),
        time("+1879-00-00T00:00:00Z", 6),
        time("soon", 11),
        {},
    ],
)
def test_a_time_that_cannot_be_compared_is_left_out(value: dict[str, Any]) -> None:
    assert values_of("P569", stated(value)) == []


def test_the_preferred_outranks_the_normal_and_the_deprecated_never_counts() -> None:
    normal, preferred = stated(amount("+100")), stated(amount("+200"), "preferred")
    deprecated = stated(amount("+300"), "deprecated")
    assert values_of("P1082", normal, preferred, deprecated) == [200]
    assert values_of("P1082", normal, deprecated) == [100]
    assert values_of("P1082", deprecated) == []


def test_units_are_known_by_their_items_and_must_fit_the_property() -> None:
    found = item("Q1", {"claims": {"P2044": [stated(amount("+29.5", "Q3710"))]}}, "en").statements()
    assert [(each.claim.unit, each.evidence) for each in found] == [
        ("foot", "Q1, elevation: 29.5 foot (Wikidata Q1, P2044)")
    ]
    assert values_of("P2044", stated(amount("+5", "Q35852"))) == []
    assert values_of("P2044", stated(amount("+5", "Q999999"))) == []


@pytest.mark.parametrize("claims", [None, [], {"P569": 5}, {"P569": [5, {"rank": "normal"}]}])
def test_what_is_not_as_documented_is_left_out(claims: object) -> None:
    assert item("Q1", {"claims": claims, "labels": 3}, "en").values == {}


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "0.0.0.0",
        "224.0.0.1",
        "100.64.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%2",
        "fd00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ],
)
def test_an_address_that_is_not_public_is_known(address: str) -> None:
    assert not public(address)


@pytest.mark.parametrize("address", ["185.15.59.224", "2a02:ec80:300:ed1a::1", "::ffff:185.15.59.224"])
def test_a_public_address_is_known(address: str) -> None:
    assert public(address)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Berlin has a population of 4 million.", ["Berlin"]),
        ("The founder, Ada Lovelace, was born in 1815.", ["Ada Lovelace"]),
        ("Albert Einstein's birth was in 1879.", ["Albert Einstein"]),
        ("However, it was founded in 1900.", []),
        ("北京常住人口为2184万人。", ["北京"]),
        ("珠穆朗玛峰海拔8849米。", ["珠穆朗玛峰"]),
    ],
)
def test_names_are_found_where_they_may_be_looked_up(text: str, found: list[str]) -> None:
    assert [text[slice(*span)] for span in subjects(text, Span(0, len(text)))] == found
