from __future__ import annotations

import time

import pytest
from hypothesis import given

from fact_check_service.checks.base import EXTRACTORS, Finding
from fact_check_service.claims import extract
from fact_check_service.consistency import MAX_CHARACTERS, SourceClaims, judge
from tests.unit.fact_check.test_checks import HOSTILE, TEXTS


def findings(prompt: str, text: str) -> list[Finding]:
    claims = [claim for _, listed in extract(text, 0, EXTRACTORS) for claim in listed]
    return judge(text, claims, SourceClaims.of(prompt))


def verdicts(prompt: str, text: str) -> list[tuple[str, str]]:
    return [(text[slice(*found.claim.span)], found.verdict.value) for found in findings(prompt, text)]


RATES = "The Federal Reserve raised its benchmark rate by 25BP on Wednesday."


def test_another_value_for_the_subject_is_contradicted_with_the_sentence_as_evidence() -> None:
    (found,) = findings(f"Some news. {RATES} More news.", "The Fed raised rates by 50BP today.")
    assert (found.verdict.value, found.rule, found.evidence) == ("contradicted", "prompt", RATES)


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        (RATES, "The Fed raised rates by twenty-five basis points today."),
        (RATES, "The Fed lifted its rate by 0.25 percentage points."),
        ("The town has 1,512,300 inhabitants.", "About 1.5 million inhabitants live in the town."),
        ("Mount Fuji is 3,776 metres high.", "Mount Fuji is 12,388 feet high."),
        ("The deal was signed on 14 March 2024.", "The deal was signed in March 2024."),
        ("The deal was signed on 14 March 2024.", "The deal was signed on March 14 in Rome."),
        ("The sample weighed between 3 and 5 kg.", "The sample weighed 4 kg."),
        ("美联储加息25个基点。", "美联储将利率上调二十五个基点。"),
    ],
)
def test_the_same_value_in_other_words_is_supported(prompt: str, text: str) -> None:
    assert [verdict for _, verdict in verdicts(prompt, text)] == ["supported"]


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("", "The Fed raised rates by 50BP today."),
        (RATES, "The Fed did not raise rates by 50BP."),
        (RATES, "Did the Fed raise rates by 50BP?"),
        (RATES, "The river is 50 km long."),
        ("Did the Fed raise rates by 25BP?", "The Fed raised rates by 50BP today."),
        ("Mount Fuji is 3,776 metres high.", "Mount Fuji is over 3,700 metres high."),
        ("Revenue was $5 million in 2022.", "Revenue was $7 million in 2023."),
        ("The plant exports 60% of its output.", "The plant imports 20% of its output."),
        ("Of 12,000 trees planted, 9,000 survived.", "9,000 trees survived."),
        ("Germany has 84 million people.", "Italy has 59 million people."),
        ("The Corran bridge is 1.2 km long.", "The nearby Sully bridge is 800 m long."),
        ("大厦高318米，1997年竣工。", "旁边的电视塔高468米。"),
        ("Arden Steel employs 12,400 people.", "Nordvale Steel sells wire and employs 8,000 people."),
        ("The Lumen S costs $249.", "The Lumen Z costs $599."),
        ("Unemployment fell to 4.2 percent.", "Economists had expected unemployment of 4.5 percent."),
        ("公司2023年营收为52亿元。", "分析师此前预计公司营收为55亿元。"),
        ("The tower is 212 metres tall.", "The tower is 12 metres taller than the cathedral."),
        ("She won in 14 minutes 38 seconds.", "She won by twelve seconds."),
        ("Rainfall was 83 mm in June.", "Rainfall was 61 mm in July."),
        ("Rainfall was 83 mm in June.", "Rainfall was well above the average of 54 mm."),
        ("In 2023 the province had 46.5 million people.", "In 2013 the province had 47.1 million people."),
        ("2023年末该省人口为4650万人。", "2013年该省城镇化率为48.3%，人口为4710万人。"),
        ("The plan costs $9. The case costs $39 and weighs 80 g.", "It weighs 80 g and costs $39."),
    ],
)
def test_what_may_both_be_true_is_not_contradicted(prompt: str, text: str) -> None:
    assert "contradicted" not in {verdict for _, verdict in verdicts(prompt, text)}


@pytest.mark.parametrize(
    ("prompt", "text", "claim"),
    [
        ("The museum drew 640,000 visitors.", "The museum drew over 700,000 visitors.", "700,000"),
        ("The museum drew 640,000 visitors.", "The museum drew fewer than 600,000 visitors.", "600,000"),
        ("官军损失约一千八百人。", "官军损失超过两千五百人。", "两千五百人"),
        ("The court may hear it within eighteen hours.", "It is heard within eighty hours.", "eighty hours"),
        ("租期自2023年5月1日至2026年4月30日。", "租期自2023年5月1日至2028年4月30日。", "2028年4月30日"),
        (
            "Profit rose from $3 million to $5 million.",
            "Profit rose from $3 million to $7 million.",
            "$7 million",
        ),
        (
            "ECB staff: the European Central Bank cut its rate by 25bp.",
            "The ECB cut its rate by 50bp.",
            "50bp",
        ),
    ],
)
def test_a_bound_an_end_or_a_rise_that_the_prompt_rules_out_is_contradicted(
    prompt: str, text: str, claim: str
) -> None:
    assert verdicts(prompt, f"{text}\n")[-1] == (claim, "contradicted")


def test_a_value_of_another_subject_of_the_prompt_is_contradicted() -> None:
    prompt = "The Model X weighs 2,301 kg and the Model Y weighs 1,995 kg."
    assert verdicts(prompt, "The Model Y weighs 2,301 kg.") == [("2,301 kg", "contradicted")]


def test_a_value_of_another_year_is_contradicted_and_not_the_year() -> None:
    prompt = "Revenue was $5 million in 2022 and $7 million in 2023."
    assert ("$7 million", "contradicted") in verdicts(prompt, "Revenue was $7 million in 2022.")
    assert ("2022", "contradicted") not in verdicts(prompt, "Revenue was $7 million in 2022.")


@pytest.mark.parametrize(
    ("prompt", "text", "name"),
    [
        ("Satya Nadella is the CEO of Microsoft.", "Tim Cook is the CEO of Microsoft.", "Tim Cook"),
        ("公司董事长张伟宣布扩建。", "公司董事长李强宣布扩建。", "李强"),
        (
            "The expedition left under Edwin Marlowe.",
            "The expedition left under Edwin Marwood.",
            "Edwin Marwood",
        ),
        ("研究所迁至苏州。", "研究所迁至常州。", "常州"),
    ],
)
def test_another_name_in_the_place_of_one_is_contradicted(prompt: str, text: str, name: str) -> None:
    assert verdicts(prompt, text) == [(name, "contradicted")]


@pytest.mark.parametrize(
    "text",
    [
        "Microsoft's CEO is Satya Nadella.",
        "Nadella, the CEO of Microsoft, spoke.",
        "Tim Cook met the CEO of Microsoft, Satya Nadella.",
        "Tim Cook likes tea.",
    ],
)
def test_a_name_that_takes_nobodys_place_is_not_contradicted(text: str) -> None:
    assert verdicts("Satya Nadella is the CEO of Microsoft.", text) == []


@given(TEXTS, TEXTS)
def test_comparing_never_raises_and_answers_every_claim(prompt: str, text: str) -> None:
    claims = [claim for _, listed in extract(text, 0, EXTRACTORS) for claim in listed]
    found = judge(text, claims, SourceClaims.of(prompt))
    assert [finding.claim for finding in found[: len(claims)]] == claims


@given(TEXTS)
def test_a_text_does_not_contradict_itself(text: str) -> None:
    claims = [claim for _, listed in extract(text, 0, EXTRACTORS) for claim in listed]
    for finding in judge(text, claims, SourceClaims.of(text)):
        assert finding.verdict.value != "contradicted"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_prompt_and_text_are_compared_in_bounded_time(name: str) -> None:
    prompt, text = HOSTILE[name] * 2, HOSTILE[name][:4_096]
    started = time.process_time()
    source = SourceClaims.of(prompt)
    judge(text, [claim for _, listed in extract(text, 0, EXTRACTORS) for claim in listed], source)
    assert time.process_time() - started < 10.0


def test_a_long_prompt_is_read_once_and_in_bounded_time() -> None:
    source = SourceClaims.of("The plant number 5 made 3,000 units for $4 million on 14 March 2024. " * 2_000)
    assert len(source.text) == MAX_CHARACTERS
    started = time.process_time()
    text = "The plant made 5,000 units for $9 million on 15 March 2024. "
    judge(text, [claim for _, listed in extract(text, 0, EXTRACTORS) for claim in listed], source)
    assert time.process_time() - started < 5.0


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("Traffic went from 1.2 to 1.5 million people.", "Traffic was 1.2 million people."),
        ("Profit rose from $12 to $15 million.", "Profit was $12 million."),
        ("The route is 12 or 15 km long.", "The route is 12,000 m long."),
        ("人口由1.2增至1.5万人。", "人口为1.2万人。"),
        ("The share, once 12%, is now 15%.", "The share was 12%."),
        ("The bridge is 300 m long (310 m with its ramps).", "The bridge is 310 m long."),
        ("The bridge, 300 m long, was extended to 340 m in 1990.", "The bridge is 340 m long."),
        ("Profit was $5 million, revised from $4 million.", "Profit was $4 million."),
        ("大桥原长300米，1990年延长至340米。", "大桥长340米。"),
        ("The lake is 12 m deep in summer but 15 m in winter.", "The lake is 15 m deep."),
        ("湖水夏季深12米，冬季深15米。", "湖水深15米。"),
        ("The ministry puts the toll at 120 people; the union says 150 people.", "The toll is 150 people."),
        ("死亡人数官方称120人，工会称150人。", "死亡人数为150人。"),
    ],
)
def test_a_sentence_that_states_both_values_is_evidence_against_neither(prompt: str, text: str) -> None:
    assert "contradicted" not in {verdict for _, verdict in verdicts(prompt, f"{text}\n")}


@pytest.mark.parametrize(
    ("prompt", "text", "claim"),
    [
        ("Profit rose from $12 to $15 million.", "Profit was $13 million.", "$13 million"),
        ("The lake is 12 m deep in summer but 15 m in winter.", "The lake is 18 m deep.", "18 m"),
        ("The lake is 12 m deep in summer but 15 m in winter.", "In summer the lake is 15 m deep.", "15 m"),
        ("湖水夏季深12米，冬季深15米。", "夏季湖水深15米。", "15米"),
        ("Tickets cost $12 for adults and $7 for children.", "Tickets for adults cost $7.", "$7"),
        ("Adults pay $12, children $7.", "Adults pay $7.", "$7"),
        ("The tower is 212 m tall and its antenna 30 m.", "The tower is 30 m tall.", "30 m"),
        ("公司营收52亿元，净利润8亿元。", "公司营收8亿元。", "8亿元"),
        ("45%的男性和52%的女性每周锻炼。", "45%的女性每周锻炼。", "45%"),
        (
            "The ministry says the toll is 120 people, while the union says 150 people.",
            "The ministry says the toll is 150 people.",
            "150 people",
        ),
        (
            "Revenue was $5 million in 2022 and $7 million in 2023.",
            "Revenue in 2022 was $7 million.",
            "$7 million",
        ),
    ],
)
def test_a_value_of_another_subject_or_case_in_the_sentence_is_contradicted(
    prompt: str, text: str, claim: str
) -> None:
    assert (claim, "contradicted") in verdicts(prompt, f"{text}\n")
