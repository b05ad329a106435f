from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fact_check_service.sentences import sentences


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two! Three", ["One.", " Two!", " Three"]),
        ("Mt. Everest is high. Yes", ["Mt. Everest is high.", " Yes"]),
        ("It is approx. 3.5 m. Yes", ["It is approx. 3.5 m.", " Yes"]),
        ("in the U.S. Senate", ["in the U.S. Senate"]),
        ("It boils at 100 °C. Then", ["It boils at 100 °C.", " Then"]),
        ("He said “no.” Then", ["He said “no.”", " Then"]),
        ("one line\nanother", ["one line\n", "another"]),
        ("水在100°C沸腾。是", ["水在100°C沸腾。", "是"]),
    ],
)
def test_a_text_is_cut_where_its_sentences_end(text: str, parts: list[str]) -> None:
    assert [text[slice(*span)] for span in sentences(text)] == parts


@given(st.text(alphabet=st.sampled_from("aA. !?\n。”)1"), max_size=60))
def test_sentences_cover_the_text_without_a_gap(text: str) -> None:
    assert "".join(text[slice(*span)] for span in sentences(text)) == text
