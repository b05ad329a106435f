"""``python -m training.router`` on a few templates, and what it measures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

from router.classifier import PROMPT_CLASSES, LinearClassifier
from training.router import __main__ as command
from training.router import fitting, measures, prompts
from training.router.filling import Template
from training.router.fitting import Settings
from training.router.prompts import Prompt, class_of_task, from_files, from_spec_bench, from_templates

SETTINGS = Settings(strength=3.0, least_groups=1, folds=3, seed=0)
TEXTS = {
    "short_qa": ("Who was {person}?", "Who is {person}?", "where is {city}"),
    "chat": ("I feel {feeling}", "do you feel {feeling}", "Write a poem about {topic}"),
    "code": ("def f(x): # {codeverb}", "{code}", "Write {plang} code to {codeverb}"),
    "math": ("{n} + {N} = ?", "{N} * {n} = ?", "{N} - {n} ="),
    "summarization": ("Summarize: {document}", "Summarize this: {document}", "summary of {document}"),
    "translation": (
        "Translate to {lang}: {sentence}",
        "Translate into {lang}: {sentence}",
        "translate {foreign}",
    ),
    "rag": ("Context: {document}", "Context:\n{document}", "Read the context: {document}"),
    "extraction": (
        "Extract {entitykind}: {passage}",
        "extract all {entitykind}",
        "Extract the {field}: {passage}",
    ),
}
TEMPLATES = [
    Template(f"{prompt_class}:{number}", prompt_class, "en", text)
    for prompt_class, texts in TEXTS.items()
    for number, text in enumerate(texts)
]


@pytest.fixture
def few() -> list[Prompt]:
    return list(from_templates(seed=1, each=6, chosen=TEMPLATES))


def test_the_command_writes_weights_that_sort_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prompts, "templates", lambda: TEMPLATES)
    out = tmp_path / "classes.npz"
    command.main(
        [
            "--data",
            str(tmp_path / "none"),
            "--each",
            "6",
            "--folds",
            "3",
            "--least-groups",
            "1",
            "--out",
            str(out),
        ]
    )
    printed = capsys.readouterr().out
    assert "all: 144 prompts" in printed and "expected calibration error" in printed
    classify = LinearClassifier.load(out)
    assert classify("Translate to Dutch: My train was late.", 38).prompt_class == "translation"
    assert classify("44 + 178 = ?", 12).prompt_class == "math"


def test_the_written_weights_say_what_the_fitted_model_says(few: list[Prompt], tmp_path: Path) -> None:
    matrix = fitting.matrix_of(few)
    fitted = fitting.fit(matrix, few, SETTINGS)
    command.save(tmp_path / "classes.npz", fitted, temperature=1.5)
    loaded = LinearClassifier.load(tmp_path / "classes.npz")
    expected = fitting.chances_of(fitted.scores(matrix), 1.5)
    found = np.array([loaded.chances(each.text[:200], each.characters) for each in few])
    assert np.allclose(found, expected, atol=0.005)


def test_fitting_without_a_class_is_refused(few: list[Prompt]) -> None:
    without = [each for each in few if each.prompt_class != "rag"]
    with pytest.raises(ValueError, match="no prompt is rag"):
        fitting.fit(fitting.matrix_of(without), without, SETTINGS)


def test_what_few_groups_have_is_not_learnt(few: list[Prompt]) -> None:
    rare = [Prompt("zzz qqq", 7, "rag", "en", "odd", f"odd {number % 2}") for number in range(6)]
    both = [*few, *rare]
    matrix = fitting.matrix_of(both)
    counts = fitting.groups_with(matrix, both)
    assert counts.max() == len(TEMPLATES) + 2
    fitted = fitting.fit(matrix, both, replace(SETTINGS, least_groups=3))
    assert np.all(fitted.weights[counts < 3] == 0)
    assert np.any(fitted.weights[(counts == 3)] != 0)


def test_no_prompt_is_scored_by_a_model_that_saw_its_group(few: list[Prompt]) -> None:
    """A group that shares nothing with any other cannot be put into its class."""
    odd = [Prompt("zzz qqq " * n, 8 * n, "rag", "en", "odd", "odd") for n in range(1, 9)]
    both = [*few, *odd]
    scores = fitting.out_of_fold(both, fitting.matrix_of(both), SETTINGS)
    right = fitting.classes_of(both)
    fitted = fitting.fit(fitting.matrix_of(both), both, SETTINGS).scores(fitting.matrix_of(both))
    assert np.mean(fitted.argmax(1)[-8:] == right[-8:]) == 1
    assert np.mean(scores.argmax(1)[-8:] == right[-8:]) < 0.5


def test_the_temperature_makes_overconfident_scores_hold() -> None:
    rng = np.random.default_rng(0)
    right = np.repeat(np.arange(8), 500)
    scores = rng.normal(size=(4000, 8))
    scores[np.arange(4000), right] += 1.0
    true_scores = scores * 1.0
    temperature = fitting.temperature_of(5 * true_scores, right)
    sharp, calm = (fitting.chances_of(5 * true_scores, each) for each in (1.0, temperature))
    assert 4 < temperature < 6
    assert measures.calibration_error(calm, right) < 0.03 < measures.calibration_error(sharp, right)


def test_macro_accuracy_counts_every_class_the_same() -> None:
    right, said = np.array([0] * 9 + [1]), np.zeros(10, int)
    assert measures.macro_accuracy(said, right) == 0.5
    assert measures.recalls(said, right) == {"short_qa": 1.0, "chat": 0.0}


def test_chances_that_are_as_sure_as_they_are_right_have_no_error() -> None:
    chances = np.tile([0.75, 0.25], (4, 1))
    assert measures.calibration_error(chances, np.array([0, 0, 0, 1])) == pytest.approx(0)
    assert measures.calibration_error(chances, np.array([1, 1, 1, 1])) == pytest.approx(0.75)


def test_a_group_is_one_template_and_its_prompts_know_their_length(few: list[Prompt]) -> None:
    assert {each.group for each in few} == {each.name for each in TEMPLATES}
    assert all(each.characters >= len(each.text) for each in few)
    assert len({each.text for each in few}) > 120


def test_a_short_question_after_much_text_is_one_about_it() -> None:
    asked = list(from_templates(seed=0, each=400, chosen=TEMPLATES[:1]))
    long_before = [each for each in asked if each.characters - len(each.text) > 1000]
    assert 10 < len(long_before) < 100
    assert {each.prompt_class for each in long_before} == {"rag"}
    assert {each.prompt_class for each in asked if each not in long_before} == {"short_qa"}


def test_spec_bench_is_read_by_category(tmp_path: Path) -> None:
    path = tmp_path / "dev.jsonl"
    rows = [("writing", "Write."), ("qa", "Who?"), ("math_reasoning", "How many?"), ("coding", "Code.")]
    path.write_text("".join(json.dumps({"category": c, "turns": [t, "later"]}) + "\n" for c, t in rows))
    found = [(each.text, each.prompt_class, each.group) for each in from_spec_bench(path)]
    assert found == [
        ("Write.", "chat", "mt-bench"),
        ("Who?", "short_qa", "spec-qa"),
        ("How many?", "math", "gsm8k"),
        ("Code.", "code", "mt-bench"),
    ]


def test_each_source_gives_at_most_as_many_prompts_as_asked(tmp_path: Path) -> None:
    for name in ("gsm8k_train", "humaneval", "instructions"):
        rows = [{"category": "kilt", "prompt": f"{name} {number}?"} for number in range(9)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = list(from_files(tmp_path, seed=0, most=4))
    assert [each.source for each in found] == ["gsm8k"] * 4 + ["humaneval"] * 4 + ["kilt"] * 4
    assert [each.prompt_class for each in found[::4]] == ["math", "code", "short_qa"]


@pytest.mark.parametrize(
    ("category", "text", "expected"),
    [
        ("quoref", "Who is he? " + "He came by train. " * 20, "rag"),
        ("quoref", "Guess a title. " + "He came by train. " * 20, None),
        ("quoref", "Who is he?", None),
        ("cnn", "Summarise the article: it rained.", "summarization"),
        ("cnn", "It rained. Summarise this.", None),
        ("kilt", "Who is he?", "short_qa"),
        ("imdb", "A good film. Is this review positive?", None),
    ],
)
def test_a_task_has_a_class_where_nothing_else_can_be_meant(
    category: str, text: str, expected: str | None
) -> None:
    assert class_of_task(category, text) == expected


def test_labels_by_hand_are_classes() -> None:
    assert set(prompts.labels_by_hand().values()) <= set(PROMPT_CLASSES)
    assert len(prompts.labels_by_hand()) > 300
