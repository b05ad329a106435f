from __future__ import annotations

import datetime

import pytest

from fact_check_service.claims import Kind, Period, YearlyDay
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
        "7/20/1969",
        "20/7/1969",
        "20.07.1969",
        "1969/7/20",
        "1969年7月20日",
        "一九六九年七月二十日",
    ],
)
def test_a_written_day_is_a_claim(written: str) -> None:
    text = f"It was on {written}."
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


@pytest.mark.parametrize(
    ("written", "first", "last"),
    [
        ("Q3 2024", (7, 1), (9, 30)),
        ("2024 Q3", (7, 1), (9, 30)),
        ("third quarter of 2024", (7, 1), (9, 30)),
        ("H1 2024", (1, 1), (6, 30)),
        ("second half of 2024", (7, 1), (12, 31)),
        ("2024年第三季度", (7, 1), (9, 30)),
        ("2024年上半年", (1, 1), (6, 30)),
        ("二〇二四年三月", (3, 1), (3, 31)),
        ("2024年", (1, 1), (12, 31)),
    ],
)
def test_a_part_of_a_year_claims_all_its_days(
    written: str, first: tuple[int, int], last: tuple[int, int]
) -> None:
    text = f"It was {written}, they say."
    (claim,) = claims_of(text)
    assert text[slice(*claim.span)] == written
    assert claim.value == Period(datetime.date(2024, *first), datetime.date(2024, *last))


def test_a_year_is_a_claim_where_a_word_makes_it_one() -> None:
    (claim,) = claims_of("It opened in 1969, on Main Street 1969, as number 1969.")
    assert claim.value == Period(datetime.date(1969, 1, 1), datetime.date(1969, 12, 31))


@pytest.mark.parametrize(
    "written", ["March 14", "14 March", "March 14th", "14th of March", "3月14日", "三月十四日"]
)
def test_a_day_without_a_year_is_a_claim(written: str) -> None:
    (claim,) = claims_of(f"It is on {written} at noon.")
    assert claim.value == YearlyDay(3, 14)


def test_whether_the_month_stands_first_is_only_clear_with_a_large_day() -> None:
    assert [claim.hedged for claim in claims_of("on 3/4/2024, on 3/14/2024 and on 3/3/2024.")] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    "text", ["it was 2024年3", "it was 2024年", "it was 2024年3月1", "it was on March 14,", "in 1969"]
)
def test_a_date_that_could_still_go_on_is_no_claim_yet(text: str) -> None:
    assert claims_of(text) == []


@pytest.mark.parametrize(
    "text", ["at 45/13/2024 or 99.99.2024.", "Suite 12, Room 3 of 1969", "12/13 of it", "1980年代的"]
)
def test_numbers_that_name_no_day_are_no_dates(text: str) -> None:
    assert [claim for claim in claims_of(text) if claim.kind is Kind.DATE and not claim.hedged] == []
