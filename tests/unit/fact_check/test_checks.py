from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fact_check_service.checks.base import MAX_CHARACTERS, Context
from fact_check_service.checks.checker import Checker
from fact_check_service.checks.rules import RuleCheck
from tests.unit.fact_check.support import RULES, check, draft, flags_of, verdicts

PHRASES = (
    "Water boils at ",
    "The Fed raised rates by ",
    "Mt. Everest is ",
    "July 20, 19",
    "2024-02-30",
    " basis points",
    "twenty-five ",
    "百分之三",
    "2024年3月",
    "between 3 and 5",
)
PIECES = (
    "100",
    " °C",
    "25",
    "69",
    "$4",
    ".2",
    " billion",
    "8,849",
    " m",
    " ×10",
    "^",
    "-",
    "²",
    "é",
    "水",
    "万",
    "十",
    " to ",
    "公里",
    ". ",
    "\n",
)
FRAGMENTS = st.sampled_from(PHRASES + PIECES)
TEXTS = st.one_of(st.text(max_size=200), st.lists(FRAGMENTS, max_size=40).map("".join))


@pytest.mark.parametrize(
    ("text", "written", "rule"),
    [
        ("Water boils at 90 °C at sea level.", "90 °C", "water-boiling-point"),
        (
            "The boiling point of water is 180 degrees Fahrenheit.",
            "180 degrees Fahrenheit",
            "water-boiling-point",
        ),
        ("Water freezes at 10 °C.", "10 °C", "water-freezing-point"),
        ("Absolute zero is -40 °C.", "-40 °C", "absolute-zero"),
        ("The speed of light is 200,000 km/s.", "200,000 km/s", "speed-of-light"),
        ("Apollo 11 landed on the Moon on July 20, 1968.", "July 20, 1968", "moon-landing"),
        ("Apollo 11 was launched on 1969-07-20.", "1969-07-20", "apollo-11-launch"),
        ("A year has 400 days.", "400 days", "days-in-a-year"),
        ("There are 25 hours in a day.", "25 hours", "hours-in-a-day"),
        ("The Fed raised rates by 400 basis points.", "400 basis points", "federal-funds-rate-move"),
        ("Mount Everest is 9,848 m high.", "9,848 m", "everest-height"),
        ("The distance from the Earth to the Moon is 38,440 km.", "38,440 km", "earth-moon-distance"),
        ("Normal body temperature is 40 °C.", "40 °C", "human-body-temperature"),
        ("The adult human body has 260 bones.", "260 bones", "adult-human-bones"),
        ("Humans have 48 chromosomes.", "48 chromosomes", "human-chromosomes"),
        ("Our solar system has 9 planets.", "9 planets", "planets-in-the-solar-system"),
        ("About 130% of the population agreed.", "130%", "share-of-a-population"),
        ("See you on February 30, 2024.", "February 30, 2024", "calendar-date"),
        ("2025年2月30日见。", "2025年2月30日", "calendar-date"),
        ("水的沸点是80摄氏度。", "80摄氏度", "water-boiling-point"),
        ("光速是150000公里/秒。", "150000公里/秒", "speed-of-light"),
        ("珠穆朗玛峰海拔7848米。", "7848米", "everest-height"),
        ("成年人共有260块骨头。", "260块骨头", "adult-human-bones"),
        ("In 2023 the Fed raised rates by 75 basis points at once.", "75 basis points", "fed-move-in-2023"),
        ("2024年美联储单次降息75个基点。", "75个基点", "fed-move-in-2024"),
        ("In 2024 the ECB cut rates by 75bp in June.", "75bp", "ecb-move-in-2024"),
        ("In 2025 the Bank of England cut Bank Rate by 50 bps.", "50 bps", "boe-move-in-2025"),
        ("2024年日本央行加息200个基点。", "200个基点", "boj-move-in-2024-or-2025"),
        ("2024年，5年期LPR下调80个基点。", "80个基点", "lpr-move"),
        ("2024年中国人民银行下调存款准备金率2个百分点。", "2个百分点", "rrr-move"),
        (
            "In July 2023 the Fed raised the federal funds rate to a range of 4.75% to 5.00%, again.",
            "4.75% to 5.00%",
            "fed-range-july-2023",
        ),
        ("2024年10月，1年期LPR降至3.35%。", "3.35%", "lpr-october-2024"),
    ],
)
def test_a_wrong_value_contradicts_its_rule(text: str, written: str, rule: str) -> None:
    assert (written, "contradicted", rule) in verdicts(text)


@pytest.mark.parametrize(
    "text",
    [
        "Water boils at 100 °C at sea level.",
        "Water boils at 212 °F.",
        "Water boils at 373.15 K.",
        "Light travels at 3 × 10^8 m/s.",
        "The speed of light is about 186,282 miles per second.",
        "Apollo 11 landed on the Moon on July 20, 1969.",
        "Apollo 11 landed on the Moon in July 1969.",
        "The Fed raised rates by 0.25 percentage points.",
        "Mt. Everest is 29,032 feet high.",
        "The Moon is 384,400 km away from the Earth.",
        "Standard atmospheric pressure is 101.325 kPa.",
        "A leap year has 366 days.",
        "About 35 percent of the population agreed.",
        "水在标准大气压下的沸点是100摄氏度。",
        "光速约为300000公里/秒。",
        "The Fed raised rates by 25–50 basis points.",
        "2024年美联储在九月降息50个基点。",
        "2024年2月5日中国人民银行下调存款准备金率0.5个百分点。",
    ],
)
def test_a_right_value_is_supported(text: str) -> None:
    assert "supported" in {verdict for _, verdict, _ in verdicts(text)}
    assert "contradicted" not in {verdict for _, verdict, _ in verdicts(text)}


@pytest.mark.parametrize(
    "text",
    [
        "Water boils at 71 °C on the summit of Mount Everest.",
        "Water does not boil at 90 °C.",
        "That water boils at 90 °C is a myth.",
        "If water boils at 90 °C, you are high up.",
        "Water boils at 90 °C?",
        "The oven was at 90 °C.",
        "Water boils. The oven was at 90 °C.",
        "Water boils at 5 km from here.",
        "Mount Everest is over 8,000 m high.",
        "水的沸点不是80摄氏度。",
        "水的沸点是80摄氏度吗？",
        "2023年美联储全年累计加息100个基点。",
        "The Fed was expected to cut rates by 75 basis points in 2024.",
        "The Fed cut rates by a total of 100 basis points in 2024.",
        "The Fed raised rates by 25 basis points to 5.5 percent, which is 550 dollars.",
        "The Fed raised rates by a total of 525 basis points since March 2022.",
        "Apollo 11 landed on the Moon before January 1, 1970.",
        "1 year has 365 days, and 2 years have more.",
        "At 0 °C water freezes and at 100 °C it boils.",
        "水银的沸点是357摄氏度。",
        "酒精水溶液的沸点约为80摄氏度。",
        "双氧水的沸点是150摄氏度。",
        "水银的凝固点是-39摄氏度。",
        "Water boils at 100 °C and freezes at 0 °C.",
        "Apollo 11 launched on July 16, 1969, and landed on the Moon on July 20, 1969.",
    ],
)
def test_what_is_not_the_subjects_value_is_not_contradicted(text: str) -> None:
    assert "contradicted" not in {verdict for _, verdict, _ in verdicts(text)}


def test_the_value_nearest_to_the_subject_is_taken_for_it() -> None:
    text = "At 20 °C it is pleasant, but water boils at 90 °C, and at 300 °C paper burns."
    assert verdicts(text) == [
        ("20 °C", "unknown", ""),
        ("90 °C", "contradicted", "water-boiling-point"),
        ("300 °C", "unknown", ""),
    ]


def test_a_rule_may_judge_every_value_of_the_sentence() -> None:
    found = verdicts("The Fed raised rates by 25 basis points in May and 400 basis points in June.")
    assert [verdict for _, verdict, _ in found] == ["supported", "contradicted"]


def test_without_rules_every_claim_is_unknown() -> None:
    assert verdicts("Water boils at 90 °C.", ()) == [("90 °C", "unknown", "")]


async def test_the_rule_checker_gives_what_the_pure_function_gives() -> None:
    text = "Water boils at 90 °C."
    found = await Checker([RuleCheck(RULES)], 1.0).check(Context(text))
    assert [(f.claim, f.verdict) for f in found] == [(f.claim, f.verdict) for f in check(text)]


@given(TEXTS)
def test_checking_never_raises_and_spans_stay_inside_the_text(text: str) -> None:
    for finding in check(text, RULES):
        start, end = finding.claim.span
        assert 0 <= finding.claim.sentence.start <= start < end <= finding.claim.sentence.end <= len(text)


@given(st.text(max_size=30), st.lists(FRAGMENTS | st.text(max_size=5), max_size=30))
def test_flags_stay_inside_the_block(tail: str, tokens: list[str]) -> None:
    for flag in flags_of(draft(tail, *tokens)):
        assert 0 <= flag.first_token < flag.end_token <= len(tokens)


@given(TEXTS, st.integers(0, 300))
def test_what_is_judged_mid_text_is_judged_the_same_when_the_text_goes_on(text: str, cut: int) -> None:
    """A claim seen before its end may be left out, but never seen as another value."""
    whole = {(finding.claim.span.start, finding.claim.value) for finding in check(text, ())}
    for finding in check(text[:cut], ()):
        start, end = finding.claim.span
        if end < cut:
            assert (start, finding.claim.value) in whole


HOSTILE = {
    "digits": "1" * 20_000,
    "groups": "1,000" * 4_000,
    "numbers": "1 " * 10_000,
    "quantities": "1 m " * 5_000,
    "subjects": "water boils the Fed raised Mount Everest is " * 500,
    "subjects and values": "water boils at 90 °C and " * 800,
    "months": "July 20, " * 2_500,
    "spaces": "1" + " " * 20_000 + "km",
    "hedges": "more than " * 2_000 + "5 km",
    "stops": "." * 20_000,
    "water": "water " * 3_333,
    "distance": "distance earth " * 1_333,
    "number words": "twenty " * 2_857,
    "points": "one point one " * 1_428,
    "numerals": "一" * 20_000,
    "places": "一万亿" * 6_666,
    "counts": "5 big red " * 2_000,
    "ranges": "5%–" * 6_666,
    "betweens": "between 3 and " * 1_428,
    "chinese dates": "2024年3月" * 2_857,
    "names": "Anna of the Bank of Bern " * 800,
    "chinese names": "董事长张伟和市" * 2_857,
    "statements": "The Fed raised rates by 5bp. " * 690,
    "banks": "in 2024 the Fed cut ECB LPR 美联储 2024年 5bp " * 400,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_text_of_twenty_thousand_characters_is_checked_in_bounded_time(text: str) -> None:
    started = time.process_time()
    check(text, RULES)
    assert time.process_time() - started < 1.0


def test_sentences_from_before_the_block_are_passed_over() -> None:
    old, new = "Water boils at 90 °C.", " A year has 400 days."
    found = check(old + new, RULES, len(old))
    assert [finding.rule for finding in found] == ["days-in-a-year"]
    assert len(check(old + new, RULES, len(old) - 1)) == 2


def test_only_the_end_of_a_long_text_is_looked_at() -> None:
    wrong = "Water boils at 90 °C. "
    filling = "x " * MAX_CHARACTERS
    assert verdicts(wrong + filling) == []
    assert verdicts(filling + wrong) == [("90 °C", "contradicted", "water-boiling-point")]
