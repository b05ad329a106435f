"""The prompts that the router's classifier learns from, each with its class and where it comes from."""

from __future__ import annotations

import json
import random
import re
import tomllib
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.router.filling import FOLDER, Filler, Template, names, templates

_SPEC_BENCH = {
    "writing": "chat",
    "roleplay": "chat",
    "reasoning": "chat",
    "stem": "chat",
    "humanities": "chat",
    "math": "math",
    "coding": "code",
    "extraction": "extraction",
    "translation": "translation",
    "summarization": "summarization",
    "qa": "short_qa",
    "math_reasoning": "math",
    "rag": "rag",
}
_MT_BENCH = frozenset(
    {"writing", "roleplay", "reasoning", "stem", "humanities", "math", "coding", "extraction"}
)
_ABOUT_PASSAGES = frozenset({"quoref", "adversarial", "duorc", "ropes", "quartz", "cosmos"})
_OF_ARTICLES = frozenset({"cnn", "xsum", "samsum", "multi"})
_OTHER_TASK = re.compile(r"\b(?:generate|title|come up with|write|create|build|suggest)\b", re.IGNORECASE)
_ASKS_FOR_SUMMARY = re.compile(
    r"(?:could you please generate a tldr|extract key points|in 2 or 3 sentences|condense|sum |summari[sz]e"
    r"|generate a summary|what are the key points|i want to edit|write a summary)",
    re.IGNORECASE,
)
_SHORTEST_PASSAGE = 250
_LONGEST_QUESTION = 200


@dataclass(frozen=True, slots=True)
class Prompt:
    """
    Attributes:
        characters: of all turns, not of ``text`` alone, which is the last one.
        source: the file, or the part of it, that it was read from, or ``templates``.
        group: prompts of one group are never on both sides of a split.
    """

    text: str
    characters: int
    prompt_class: str
    language: str
    source: str
    group: str


def from_templates(seed: int, each: int, chosen: Iterable[Template] | None = None) -> Iterator[Prompt]:
    """``each`` prompts of every template that has slots, two of one that has none."""
    rng = random.Random(seed)
    fillers = {language: Filler(language, rng) for language in ("en", "zh")}
    for template in templates() if chosen is None else chosen:
        for _ in range(each if names(template.text) else 2):
            text = _dressed(fillers[template.language].fill(template.text), template.language, rng)
            unseen, prompt_class = _conversation(template.prompt_class, rng)
            yield Prompt(
                text, len(text) + unseen, prompt_class, template.language, "templates", template.name
            )


_OPENINGS = {
    "en": (
        "Hi! ",
        "Hello, ",
        "hey ",
        "Please help. ",
        "OK. ",
        "Good morning! ",
        "I have a task for you. ",
        "\n",
    ),
    "zh": ("你好，", "您好！", "麻烦你，", "嗨，", "请教一下，", "好的，", "有个任务给你：", "\n"),
}
_CLOSINGS = {
    "en": (
        " Thanks!",
        " please",
        "\n\nThank you in advance.",
        " Answer in English.",
        " Think step by step.",
        "\n",
    ),
    "zh": ("谢谢！", "，谢谢", "\n请用中文回答。", "请尽量详细。", "\n", "，急！"),
}


def _dressed(text: str, language: str, rng: random.Random) -> str:
    """As people type: now and then with a greeting or thanks, in lower case, without the last sign."""
    if rng.random() < 0.12:
        text = rng.choice(_OPENINGS[language]) + text
    if rng.random() < 0.08:
        text += rng.choice(_CLOSINGS[language])
    if rng.random() < 0.08:
        text = text.lower()
    if rng.random() < 0.1:
        text = text.rstrip("?？.。!！")
    return text


def _conversation(prompt_class: str, rng: random.Random) -> tuple[int, str]:
    """How many characters stand before the turn, and its class after them.

    A bare question after much text is taken for one about that text.
    """
    if rng.random() > 0.16:
        return 0, prompt_class
    if prompt_class == "short_qa" and rng.random() < 0.5:
        return rng.randint(1200, 16000), "rag"
    longest = 500 if prompt_class == "short_qa" else 12000
    return int(30 * (longest / 30) ** rng.random()), prompt_class


def from_spec_bench(path: Path) -> Iterator[Prompt]:
    """The first turn of each question. Its word problems are those of GSM8K, so they are of that group."""
    for row in _rows(path):
        category, text = row["category"], row["turns"][0]
        of_mt_bench = category in _MT_BENCH
        group = "gsm8k" if category == "math_reasoning" else "mt-bench" if of_mt_bench else f"spec-{category}"
        yield Prompt(text, len(text), _SPEC_BENCH[category], "en", "spec-bench", group)


def from_files(folder: Path, seed: int, most: int) -> Iterator[Prompt]:
    """GSM8K's, HumanEval's and those instructions that can be labelled, ``most`` of each source.

    Of the hand-written instructions there are all that have a class.
    """
    rng = random.Random(seed)
    gathered: dict[str, list[Prompt]] = {}
    for prompt in _labelled(folder):
        gathered.setdefault(prompt.source, []).append(prompt)
    for source, prompts in gathered.items():
        yield from prompts if source == "instructions" else rng.sample(prompts, min(most, len(prompts)))


def _labelled(folder: Path) -> Iterator[Prompt]:
    for row in _rows(folder / "gsm8k_train.jsonl"):
        yield _prompt(row["prompt"], "math", "gsm8k")
    for row in _rows(folder / "humaneval.jsonl"):
        yield _prompt(row["prompt"], "code", "humaneval")
    by_hand = labels_by_hand()
    for row in _rows(folder / "instructions.jsonl"):
        text, category = row["prompt"], row["category"]
        if category == "instruction":
            if (key := f"{zlib.crc32(text.encode()):08x}") in by_hand:
                yield _prompt(text, by_hand[key], "instructions")
        elif prompt_class := class_of_task(category, text):
            yield _prompt(text, prompt_class, category)


def labels_by_hand() -> dict[str, str]:
    """The class of a hand-written instruction by the CRC-32 of its text."""
    by_class = tomllib.loads((FOLDER / "instructions.toml").read_text())
    return {key: prompt_class for prompt_class, keys in by_class.items() for key in keys}


def class_of_task(category: str, text: str) -> str | None:
    """The class of a prompt of an NLP task, where its category and its wording leave no doubt."""
    if category in _ABOUT_PASSAGES and len(text) > _SHORTEST_PASSAGE and not _OTHER_TASK.search(text):
        return "rag"
    if category in _OF_ARTICLES and _ASKS_FOR_SUMMARY.match(text):
        return "summarization"
    if category == "kilt" and len(text) < _LONGEST_QUESTION:
        return "short_qa"
    return None


def _prompt(text: str, prompt_class: str, source: str) -> Prompt:
    return Prompt(text, len(text), prompt_class, "en", source, source)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
