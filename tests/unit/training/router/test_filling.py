"""Templates and what fills them."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from router.classifier import PROMPT_CLASSES
from training.router.filling import LANGUAGES, Filler, known, names, slots, templates


def filler(language: str = "en", seed: int = 0) -> Filler:
    return Filler(language, random.Random(seed))


def test_every_slot_of_a_template_has_values() -> None:
    missing = {each.name: names(each.text) - known(each.language) for each in templates()}
    assert {name: slots for name, slots in missing.items() if slots} == {}


def test_every_slot_of_a_value_has_values() -> None:
    for language in LANGUAGES:
        found = set().union(*(names(value) for values in slots(language).values() for value in values))
        assert found <= known(language)


def test_every_class_has_templates_in_both_languages_and_none_is_there_twice() -> None:
    counts = Counter((each.prompt_class, each.language) for each in templates())
    assert set(counts) == {(name, language) for name in PROMPT_CLASSES for language in LANGUAGES}
    assert min(counts.values()) >= 60
    texts = Counter((each.prompt_class, each.text) for each in templates())
    assert [text for text, count in texts.items() if count > 1] == []


def test_slots_are_filled_those_within_values_too_and_other_braces_stay() -> None:
    text = filler().fill('{"{field}": 1} {dialogue} \\frac{{n}}{{n}} {')
    assert names(text) == set()
    assert text.startswith('{"') and text.endswith("{") and "\\frac{" in text


def test_a_slot_without_values_is_named() -> None:
    with pytest.raises(KeyError, match="nonsense"):
        filler().fill("{nonsense}")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_seed_decides_the_prompts(language: str) -> None:
    texts = [each.text for each in templates() if each.language == language]

    def filled(seed: int) -> list[str]:
        one = filler(language, seed)
        return [one.fill(text) for text in texts]

    assert filled(1) == filled(1) != filled(2)


def test_documents_are_long_and_passages_short() -> None:
    for language, document, passage in (("en", "{document}", "{passage}"), ("zh", "{长文}", "{段落}")):
        one = filler(language)
        longest_passage = max(len(one.fill(passage)) for _ in range(50))
        longest_document = max(len(one.fill(document)) for _ in range(50))
        assert 200 < 3 * longest_passage < longest_document
