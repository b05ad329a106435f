"""Fences of code, and the language that they name."""

from __future__ import annotations

import pytest

from draft_service.sources.fences import language, openings
from draft_service.sources.rules import RuleSource
from tests.unit.draft.byte_tokenizers import byte_level
from tests.unit.draft.sessions import opened


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("Write it in Python, please.", "python"),
        ("From Java to C++", "cpp"),
        ("a JavaScript function", "javascript"),
        ("C#?", "csharp"),
        ("Go program", "go"),
        ("go home", ""),
        ("pythons", ""),
    ],
)
def test_the_language_is_the_last_that_a_text_names(text: str, tag: str) -> None:
    assert language(text) == tag


@pytest.mark.parametrize(
    ("answer", "asked", "expected"),
    [
        ("Here is a Python function that sorts a list:", "", "\n\n```python\n"),
        ("Here is the code:\n", "rust", "\n```rust\n"),
        ("Here is an example in Bash:\n\n", "python", "```bash\n"),
        ("For example:\n\n```", "sql", "sql\n"),
        ("```", "java", "java\n"),
    ],
)
def test_a_fence_opens_in_the_language_that_is_named(answer: str, asked: str, expected: str) -> None:
    assert list(openings(answer, asked)) == [expected]


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ("Here is the code:", ""),
        ("The ingredients are:", "python"),
        ("Here is the code:\n\n\n", "python"),
        ("```python\nprint(1)\n```", "python"),
        ("This function is short.", "python"),
    ],
    ids=["no language", "no code", "too late", "a fence that closes", "no announcement"],
)
def test_elsewhere_none_opens(answer: str, asked: str) -> None:
    assert list(openings(answer, asked)) == []


def test_the_source_takes_the_language_from_the_prompt_and_looks_at_the_answer_alone() -> None:
    tokenizer = byte_level()
    made = RuleSource(tokenizer, ())
    prompt, answer = tokenizer.encode("How do I sort in Ruby? Use this code:"), tokenizer.encode("```")
    asked = opened("asked", tokens=prompt, prompt_length=len(prompt), block_size=8)
    begun = opened("begun", tokens=[*prompt, *answer], prompt_length=len(prompt), block_size=8)
    nothing, opening = made.propose([asked, begun])
    assert nothing is not None
    assert nothing.token_ids == ()
    assert opening is not None
    assert tokenizer.decode(opening.token_ids) == "ruby\n"
