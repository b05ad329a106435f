from __future__ import annotations

from fractions import Fraction

import pytest

from fact_check_service import units
from fact_check_service.claims import Kind
from tests.unit.fact_check.support import claims_of


@pytest.mark.parametrize(
    ("text", "written", "value", "unit"),
    [
        ("It is 100 °C here", "100 °C", "100", "celsius"),
        ("It is 100°C here", "100°C", "100", "celsius"),
        ("It is 100 degrees Celsius here", "100 degrees Celsius", "100", "celsius"),
        ("It is -40 °F here", "-40 °F", "-40", "fahrenheit"),
        ("It is −273.15 °C here", "−273.15 °C", "-273.15", "celsius"),
        ("by 25 basis points.", "25 basis points", "25", "basis_point"),
        ("a 25-basis-point move", "25-basis-point", "25", "basis_point"),
        ("by 25bp today", "25bp", "25", "basis_point"),
        ("by 25 bps today", "25 bps", "25", "basis_point"),
        ("by 0.25 percentage points.", "0.25 percentage points", "0.25", "percentage_point"),
        ("about 3.5 % of it", "3.5 %", "3.5", "percent"),
        ("about 3.5% of it", "3.5%", "3.5", "percent"),
        ("about 3 per cent of it", "3 per cent", "3", "percent"),
        ("for $4.2 billion in cash", "$4.2 billion", "4200000000", "us_dollar"),
        ("for US$3bn in cash", "US$3bn", "3000000000", "us_dollar"),
        ("for -€1,500.50 in cash", "-€1,500.50", "-1500.5", "euro"),
        ("for 4.2 billion dollars in cash", "4.2 billion dollars", "4200000000", "us_dollar"),
        ("after 12 km of road", "12 km", "12", "kilometre"),
        ("after 12 Kilometres of road", "12 Kilometres", "12", "kilometre"),
        ("it weighs 1,234.5 kg dry", "1,234.5 kg", "1234.5", "kilogram"),
        ("it weighs 1,234,567 kg dry", "1,234,567 kg", "1234567", "kilogram"),
        ("at 3 × 10^8 m/s in vacuum", "3 × 10^8 m/s", "300000000", "metre_per_second"),
        ("at 3×10⁸ m/s in vacuum", "3×10⁸ m/s", "300000000", "metre_per_second"),
        (r"at 3 \times 10^{8} m/s in vacuum", r"3 \times 10^{8} m/s", "300000000", "metre_per_second"),
        ("at 3e8 m/s in vacuum", "3e8 m/s", "300000000", "metre_per_second"),
        ("at 1.5 × 10⁻³ kg now", "1.5 × 10⁻³ kg", "0.0015", "kilogram"),
        ("at 9.81 m/s² here", "9.81 m/s²", "9.81", "metre_per_second_squared"),
        ("all 206 bones of it", "206 bones", "206", "bone"),
        ("水在100°C沸腾", "100°C", "100", "celsius"),
    ],
)
def test_a_number_with_its_unit_is_a_claim(text: str, written: str, value: str, unit: str) -> None:
    (claim,) = claims_of(text)
    assert text[slice(*claim.span)] == written
    assert (claim.kind, claim.value, claim.unit) == (Kind.QUANTITY, Fraction(value), unit)


@pytest.mark.parametrize(
    "text",
    [
        "chapter 12 of it",
        "version 3.10.2 m of it",
        "12 kmx of it",
        "12 km/l of it",
        "1,23 km of it",
        "x12 km of it",
        "10^12 km of it",
        "A$5 of it",
        "°C and % alone",
    ],
)
def test_a_number_without_a_known_unit_is_no_claim(text: str) -> None:
    assert claims_of(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "raised by 2",
        "raised by 25",
        "raised by 25 ",
        "raised by 25 b",
        "raised by 25 bp",
        "raised by 25 basis point",
        "it is 100 °",
        "it is 8,849 m",
        "it is 300,000 kilometers",
        "it is 300,000 kilometers ",
        "it is 300,000 kilometers per",
        "it costs $4",
        "it costs $4.",
        "it costs $4,",
        "it costs $4.2 ",
        "it costs $4.2 bil",
        "it costs $4.2 b",
        "it is 5 percent",
    ],
)
def test_a_quantity_that_could_still_grow_at_the_end_is_no_claim_yet(text: str) -> None:
    assert claims_of(text) == []


@pytest.mark.parametrize(
    "text",
    ["by 25 basis points", "by 25 bps", "it is 100 °C", "it is 5%", "for $4.2 billion", "it is 8,849 m tall"],
)
def test_a_quantity_that_is_complete_at_the_end_is_a_claim(text: str) -> None:
    assert len(claims_of(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "over 8,000 m high",
        "more than 8,000 m high",
        "at least about 8,000 m high",
        "nearly 9,000 m high",
        "<8,000 m high",
        "8,849 ± 5 m high",
    ],
)
def test_a_bound_is_hedged(text: str) -> None:
    assert claims_of(text)[-1].hedged


def test_a_plain_value_is_not_hedged() -> None:
    assert not claims_of("about 8,849 m high")[0].hedged


@pytest.mark.parametrize(
    ("value", "unit", "target", "expected"),
    [
        ("32", "fahrenheit", "celsius", "0"),
        ("212", "fahrenheit", "celsius", "100"),
        ("-40", "celsius", "fahrenheit", "-40"),
        ("0", "kelvin", "celsius", "-273.15"),
        ("0.25", "percentage_point", "basis_point", "25"),
        ("1", "mile", "metre", "1609.344"),
        ("36", "kilometre_per_hour", "metre_per_second", "10"),
        ("1", "atmosphere", "hectopascal", "1013.25"),
    ],
)
def test_units_of_one_dimension_convert_exactly(value: str, unit: str, target: str, expected: str) -> None:
    assert units.convert(Fraction(value), unit, target) == Fraction(expected)


@pytest.mark.parametrize(
    ("unit", "target"), [("percent", "basis_point"), ("year", "day"), ("metre", "second")]
)
def test_units_of_different_dimensions_do_not_compare(unit: str, target: str) -> None:
    assert not units.comparable(unit, target)
