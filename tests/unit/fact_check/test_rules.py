from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import ConfigError
from fact_check_service.rules import load_rules
from tests.unit.fact_check.support import RULES, verdicts

GOOD = """
rules:
  - name: a-rule
    kind: quantity
    subject: rope
    unit: metre
    allowed: {min: 1, max: 2}
    evidence: measured
"""


def loaded(directory: Path, text: str) -> str:
    """The message of the error that the file raises."""
    path = directory / "rules.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_rules(str(path))
    assert caught.value.field == "TANDEM_FACT_CHECK_RULES_PATH"
    assert "TANDEM_FACT_CHECK_RULES_PATH" in caught.value.message
    return caught.value.message


def test_the_packaged_rules_load_and_carry_evidence() -> None:
    assert len(RULES) >= 20
    assert all(rule.evidence for rule in RULES)


@pytest.mark.parametrize(
    ("allowed", "right", "wrong"),
    [
        ("{min: 1, max: 2}", ["1 m", "2 m", "150 cm"], ["0.99 m", "2.01 m"]),
        ("{min: 1}", ["1 m", "1 km"], ["99 cm"]),
        ("{max: 0.1}", ["0.1 m", "10 cm"], ["11 cm"]),
        ("{values: [1, 0.3]}", ["1 m", "30 cm", "300 mm"], ["2 m", "31 cm"]),
    ],
)
def test_a_quantity_is_compared_in_the_rules_unit(
    tmp_path: Path, allowed: str, right: list[str], wrong: list[str]
) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(GOOD.replace("{min: 1, max: 2}", allowed), encoding="utf-8")
    rules = load_rules(str(path))
    assert {
        verdict for length in right for _, verdict, _ in verdicts(f"The rope is {length} long", rules)
    } == {"supported"}
    assert {
        verdict for length in wrong for _, verdict, _ in verdicts(f"The rope is {length} long", rules)
    } == {"contradicted"}


def test_a_subject_may_be_a_list_of_expressions(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(GOOD.replace("subject: rope", "subject: [cable, rope]"), encoding="utf-8")
    assert verdicts("The rope is 5 m long", load_rules(str(path))) == [("5 m", "contradicted", "a-rule")]


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("{min: 1, max: 2}", "{min: 3, max: 2}", "a-rule, key allowed"),
        ("{min: 1, max: 2}", "{}", "a-rule, key allowed"),
        ("{min: 1, max: 2}", "{min: 1, values: [1]}", "a-rule, key allowed"),
        ("{min: 1, max: 2}", "{values: []}", "a-rule, key allowed.values"),
        ("{min: 1, max: 2}", "{min: yes}", "a-rule, key allowed.min"),
        ("{min: 1, max: 2}", "{min: .inf}", "a-rule, key allowed.min"),
        ("{min: 1, max: 2}", "{minimum: 1}", "a-rule, key allowed.minimum"),
        ("metre", "cubit", "a-rule, key unit"),
        ("subject: rope", "subject: '('", "a-rule, key subject"),
        ("subject: rope", "subject: 'a*'", "a-rule, key subject"),
        ("subject: rope", "subject: []", "a-rule, key subject"),
        ("subject: rope", "subject: 5", "a-rule, key subject"),
        ("    subject: rope\n", "", "a-rule, key subject"),
        ("measured", "''", "a-rule, key evidence"),
        ("kind: quantity", "kind: opinion", "a-rule, key kind"),
        ("    kind: quantity\n", "", "a-rule, key kind"),
        ("kind: quantity", "kind: date", "a-rule, key allowed"),
        ("name: a-rule", "name: A rule", "key name"),
        ("    evidence", "    judges: all\n    evidence", "a-rule, key judges"),
        ("    evidence", "    severity: 1\n    evidence", "a-rule, key severity"),
        ("rules:", "facts:", "one key, rules"),
        ("rules:", "more: 1\nrules:", "one key, rules"),
        ("rules:", "rules: [", "while parsing"),
    ],
)
def test_a_bad_file_is_refused_with_the_rule_and_key_named(
    tmp_path: Path, right: str, wrong: str, expected: str
) -> None:
    assert right in GOOD
    assert expected in loaded(tmp_path, GOOD.replace(right, wrong))


@pytest.mark.parametrize(
    "allowed",
    ["{date: 2024-02-30}", "{date: soon}", "{first: 2024-01-02, last: 2024-01-01}", "{exists: false}"],
)
def test_bad_days_are_refused(tmp_path: Path, allowed: str) -> None:
    text = GOOD.replace("kind: quantity", "kind: date").replace("    unit: metre\n", "")
    loaded(tmp_path, text.replace("{min: 1, max: 2}", allowed))


def test_a_name_used_twice_is_refused(tmp_path: Path) -> None:
    assert "rule a-rule, key name: used twice" in loaded(tmp_path, GOOD + GOOD.replace("\nrules:\n", ""))


def test_a_rule_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    assert "rule number 1" in loaded(tmp_path, "rules: [1]")


def test_a_missing_file_is_refused() -> None:
    with pytest.raises(ConfigError, match="TANDEM_FACT_CHECK_RULES_PATH"):
        load_rules("/no/such/file.yaml")
