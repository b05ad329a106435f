from __future__ import annotations

import pytest

from fact_check_service.names import NameKind, name_kind, names
from fact_check_service.sentences import Span


def found(text: str) -> list[str]:
    return [str(claim.value) for claim in names(text, Span(0, len(text)))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("In 2011 Dr. Elena Petrova joined Northwind University.", ["Elena Petrova", "Northwind University"]),
        ("The museum in Bern was designed by Renzo Piano.", ["Bern", "Renzo Piano"]),
        ("Satya Nadella is the CEO of Microsoft.", ["Satya Nadella", "Microsoft"]),
        ("She works for the Bank of England.", ["Bank of England"]),
        ("该公司总部位于深圳市。", ["深圳市"]),
        ("公司董事长张伟表示同意。", ["张伟"]),
        ("他毕业于北京大学。", ["北京大学"]),
    ],
)
def test_names_are_found(text: str, expected: list[str]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize("text", ["Revenue rose on Monday in March.", "The price fell.", "水在一百度沸腾。"])
def test_capitals_that_name_nothing_are_left_out(text: str) -> None:
    assert found(text) == []


def test_a_name_that_the_end_may_have_cut_is_left_out() -> None:
    assert found("He met Renzo Pia") == []


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("He joined Northwind University.", "Northwind University", NameKind.ORGANISATION),
        ("He lives in Bern.", "Bern", NameKind.PLACE),
        ("He met Dr. Holm.", "Holm", NameKind.PERSON),
        ("他在深圳市。", "深圳市", NameKind.PLACE),
        ("他在华兴银行。", "华兴银行", NameKind.ORGANISATION),
        ("He praised Holm.", "Holm", NameKind.ANY),
    ],
)
def test_a_name_tells_what_it_is_of(text: str, name: str, kind: NameKind) -> None:
    start = text.index(name)
    assert name_kind(text, Span(start, start + len(name))) is kind
