from __future__ import annotations

from fractions import Fraction

import pytest

from fact_check_service.chinese import digits_of, parse


@pytest.mark.parametrize(
    ("numeral", "value", "step"),
    [
        ("一万五千亿", "1500000000000", "100000000000"),
        ("三点五", "7/2", "1/10"),
        ("零点二五", "1/4", "1/100"),
        ("一点五万亿", "1500000000000", "100000000000"),
        ("二十五", "25", "1"),
        ("十", "10", "10"),
        ("百万", "1000000", "1000000"),
        ("两千三", "2300", "100"),
        ("一万五", "15000", "1000"),
        ("一千零一", "1001", "1"),
        ("1.5万亿", "1500000000000", "100000000000"),
        ("3000万", "30000000", "10000"),
        ("1亿2000万", "120000000", "10000"),
        ("5万3千", "53000", "1000"),
    ],
)
def test_a_numeral_has_its_value_and_the_place_of_its_last_digit(numeral: str, value: str, step: str) -> None:
    parsed = parse(numeral)
    assert parsed is not None
    assert (parsed.value(), parsed.step()) == (Fraction(value), Fraction(step))


@pytest.mark.parametrize("numeral", ["三五", "", "点五", "十百千二三", "一百零"])
def test_characters_that_make_up_no_number_have_no_value(numeral: str) -> None:
    assert parse(numeral) is None


def test_the_digits_of_a_year_are_read_one_by_one() -> None:
    assert digits_of("二〇二四") == "2024"
