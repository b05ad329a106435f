"""Quantities beyond a number with a unit behind it: words, Chinese, ranges, counts, hedges."""

from __future__ import annotations

from fractions import Fraction

import pytest

from fact_check_service.claims import Range
from tests.unit.fact_check.support import claims_of


@pytest.mark.parametrize(
    ("text", "written", "value", "unit"),
    [
        ("raised by 25BP today", "25BP", "25", "basis_point"),
        ("raised by 25BPS today", "25BPS", "25", "basis_point"),
        ("spent $25B today", "$25B", "25000000000", "us_dollar"),
        ("by twenty-five basis points.", "twenty-five basis points", "25", "basis_point"),
        ("to three million dollars.", "three million dollars", "3000000", "us_dollar"),
        ("for one point five million people.", "one point five million people", "1500000", "person"),
        ("after a hundred kilometres.", "a hundred kilometres", "100", "kilometre"),
        ("by one hundred and fifty kg.", "one hundred and fifty kg", "150", "kilogram"),
        ("by half a percentage point.", "half a percentage point", "0.5", "percentage_point"),
        ("a quarter-point cut", "a quarter-point", "0.25", "percentage_point"),
        ("at minus 40 °C today", "minus 40 °C", "-40", "celsius"),
        ("for USD 5 million today", "USD 5 million", "5000000", "us_dollar"),
        ("for RMB 300 million today", "RMB 300 million", "300000000", "yuan"),
        ("加息25个基点。", "25个基点", "25", "basis_point"),
        ("加息二十五个基点。", "二十五个基点", "25", "basis_point"),
        ("下降半个百分点。", "半个百分点", "0.5", "percentage_point"),
        ("规模为一万五千亿元。", "一万五千亿元", "1500000000000", "yuan"),
        ("规模为1.5万亿元。", "1.5万亿元", "1500000000000", "yuan"),
        ("花费¥300万。", "¥300万", "3000000", "yuan"),
        ("占百分之三点五。", "百分之三点五", "3.5", "percent"),
        ("约三成的人", "三成", "30", "percent"),
        ("约三成五的人", "三成五", "35", "percent"),
        ("增速为-1.5%。", "-1.5%", "-1.5", "percent"),
        ("零下40摄氏度的天气", "零下40摄氏度", "-40", "celsius"),
        ("重5千克的箱子", "5千克", "5", "kilogram"),
        ("时速为5米/秒。", "5米/秒", "5", "metre_per_second"),
        ("人口1亿2000万人。", "1亿2000万人", "120000000", "person"),
        ("has 300 employees today", "300", "300", "count"),
        ("有300名员工。", "300", "300", "count"),
    ],
)
def test_a_quantity_in_any_common_form_is_a_claim(text: str, written: str, value: str, unit: str) -> None:
    (claim,) = claims_of(text)
    assert text[slice(*claim.span)] == written
    assert (claim.value, claim.unit) == (Fraction(value), unit)


@pytest.mark.parametrize(
    ("text", "written", "low", "high", "unit"),
    [
        ("kept at 5.25%–5.50% today", "5.25%–5.50%", "5.25", "5.5", "percent"),
        ("kept at 5.25% to 5.50% today", "5.25% to 5.50%", "5.25", "5.5", "percent"),
        ("weighs between 3 and 5 kg today", "3 and 5 kg", "3", "5", "kilogram"),
        ("ranges from 3 to 5 kg today", "3 to 5 kg", "3", "5", "kilogram"),
        ("保持3℃-8℃之间", "3℃-8℃", "3", "8", "celsius"),
        ("moves of 25–50 bps today", "25–50 bps", "25", "50", "basis_point"),
        ("costs $5-6 million today", "$5-6 million", "5000000", "6000000", "us_dollar"),
        ("距离为3至5公里。", "3至5公里", "3", "5", "kilometre"),
        ("重三到五公斤。", "三到五公斤", "3", "5", "kilogram"),
        ("有3–5万人。", "3–5万人", "30000", "50000", "person"),
    ],
)
def test_a_range_is_one_claim(text: str, written: str, low: str, high: str, unit: str) -> None:
    (claim,) = claims_of(text)
    assert text[slice(*claim.span)] == written
    assert (claim.value, claim.unit) == (Range(Fraction(low), Fraction(high)), unit)


@pytest.mark.parametrize(
    "text", ["rose from 3% to 5% today", "从3%升至5%。", "5%–3% of it", "3% and 5% of it"]
)
def test_two_values_are_no_range(text: str) -> None:
    assert [claim.value for claim in claims_of(text)] in ([3, 5], [5, 3])


@pytest.mark.parametrize("text", ["it is 5%–", "it is 5% to 6", "it is 5 kg to 6 k", "between 5% and 6"])
def test_a_value_that_may_begin_a_range_is_no_claim_yet(text: str) -> None:
    assert claims_of(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "at Suite 12 rooms are free",
        "the 2023 sales were high",
        "2024年的第三季度",
        "几十公里外",
        "in the 1990s prices fell",
        "数百万人参加",
        "不成为问题，三成为二",
        "三年级学生",
        "第三人民医院",
    ],
)
def test_what_counts_nothing_is_no_quantity(text: str) -> None:
    assert [claim for claim in claims_of(text) if claim.unit] == []


@pytest.mark.parametrize(
    "text", ["300公里以上。", "近300公里。", "超过300公里。", "不到300公里。", "300 km or more today"]
)
def test_a_bound_is_hedged_in_both_languages(text: str) -> None:
    assert claims_of(text)[0].hedged


@pytest.mark.parametrize(
    "text",
    ["about 300 km away", "约300公里。", "300公里左右。", "300多公里。", "300万余人。", "300 km or so away"],
)
def test_a_rounded_value_is_approximate_and_no_bound(text: str) -> None:
    (claim,) = claims_of(text)
    assert claim.approximate
    assert not claim.hedged


@pytest.mark.parametrize(
    ("text", "step"), [("1.5 million people,", "100000"), ("25 kg,", "1"), ("三百万人，", "1000000")]
)
def test_the_step_is_the_place_of_the_last_digit(text: str, step: str) -> None:
    assert claims_of(text)[0].step == Fraction(step)
