from __future__ import annotations

import datetime

import pytest

from fact_check_service.claims import Kind, Period
from tests.unit.fact_check.support import claims_of

LANDING = datetime.date(1969, 7, 20)


@pytest.mark.parametrize(
    "written",
    [
        "1969-07-20",
        "July 20, 1969",
        "July 20 1969",
        "July 20th, 1969",
        "Jul 20, 1969",
        "Jul. 20, 1969",
        "20 July 1969",
        "20th of July 1969",
        "20 July, 1969",
    ],
)
def test_a_written_day_is_a_claim(written: str) -> None:
    text = f"It was on {written}"
    (claim,) = claims_of(text)
    assert text[slice(*claim.span)] == written
    assert (claim.kind, claim.value) == (Kind.DATE, Period(LANDING, LANDING))


@pytest.mark.parametrize(
    ("written", "last_day"),
    [("July 1969", datetime.date(1969, 7, 31)), ("February 2024", datetime.date(2024, 2, 29))],
)
def test_a_month_claims_all_its_days(written: str, last_day: datetime.date) -> None:
    (claim,) = claims_of(f"It was in {written}.")
    assert claim.value == Period(last_day.replace(day=1), last_day)


@pytest.mark.parametrize(
    "written",
    [
        "2024-02-30",
        "2024-13-05",
        "2023-02-29",
        "0000-01-01",
        "February 30, 2024",
        "31 June 2024",
        "July 32, 1969",
        "July 0, 1969",
        "July 20, 0000",
    ],
)
def test_an_impossible_date_is_a_claim_without_days(written: str) -> None:
    (claim,) = claims_of(f"It was on {written}.")
    assert (claim.kind, claim.value) == (Kind.DATE, None)


@pytest.mark.parametrize(
    "text",
    [
        "July 20",
        "July 20, 19",
        "July 20, 196",
        "20 July 19",
        "1969-07-2",
        "1969-07",
        "July 19690",
        "1969-07-200",
        "it may 2024 times",
        "in 1969",
        "10.1969-07-20",
    ],
)
def test_what_has_no_whole_date_is_no_claim(text: str) -> None:
    assert claims_of(text) == []


@pytest.mark.parametrize("text", ["before July 20, 1969", "since July 1969", "prior to 1969-07-20"])
def test_a_bound_in_time_is_hedged(text: str) -> None:
    assert claims_of(text)[0].hedged
