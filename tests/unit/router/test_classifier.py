from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from router.classifier import PROMPT_CLASSES, Classification, LinearClassifier, features
from router.classifier.model import WEIGHTS

CHECKED = Path(__file__).parents[2] / "data/router/prompts.jsonl"
LARGEST_BYTES = 12_000_000
CLASSIFY = LinearClassifier.load()

ENGLISH = [
    ("short_qa", "Who wrote the opera Carmen?"),
    ("short_qa", "When does the next leap year begin"),
    ("short_qa", "What is the capital of Mongolia?"),
    ("short_qa", "The museum of modern art is in which city?"),
    ("short_qa", "Is a tomato a fruit?"),
    ("chat", "Hello! How are you today?"),
    ("chat", "Can you be my study partner?"),
    ("chat", "Write a short poem about autumn rain for my grandmother."),
    (
        "chat",
        "Give me 5 ideas for a birthday party, each in 2 sentences, for a child who is fond of dinosaurs.",
    ),
    ("chat", "Write a story about a girl named Ruby who can speak with birds."),
    (
        "chat",
        "Describe how supervised and unsupervised learning differ, with an example of each from medicine.",
    ),
    ("code", "Write a Python function that merges two sorted lists."),
    ("code", "Implement quicksort in Rust."),
    ("code", "def fibonacci(n):\n    # complete this"),
    ("code", "Fix this:\n```js\nlet x = ;\n```"),
    ("code", "Translate this Java class into Kotlin: class A {}"),
    ("code", "I get a Traceback when I start my server, what does it mean?"),
    ("code", "Write a SQL query that returns the ten largest orders."),
    ("code", "Write a regex that matches ISO dates."),
    ("math", "Solve the equation 3x + 5 = 20."),
    ("math", "What is 17 * 23?"),
    ("math", "12 + 30 ="),
    ("math", "Prove that there are infinitely many primes."),
    ("math", "A train covers 60 miles in 1.5 hours. How fast is it?"),
    (
        "math",
        "Tom has 5 apples and eats 2 of them before lunch. His sister brings him some more the next day.",
    ),
    ("math", "What is the probability of two heads when a coin is tossed three times?"),
    ("summarization", "Summarize the following article: The city council met on Tuesday."),
    ("summarization", "Give me a summary of the plot of Hamlet."),
    ("summarization", "TL;DR: the team shipped late because of the move."),
    ("translation", "Translate to French: The cat sleeps."),
    ("translation", "How do you say good night in Italian?"),
    ("translation", "Please give an English translation of: Guten Morgen"),
    ("rag", "Based on the following context, when was the bridge built? Context: The bridge opened in 1932."),
    ("rag", "Context: The bridge opened in 1932.\nQuestion: when did it open?"),
    ("rag", "Read the passage below and answer the question. The bridge opened long ago."),
    ("extraction", "Extract all dates from this text: on 3 May 1999 they met."),
    ("extraction", "Identify the named entities in this sentence: Ada met Charles in London."),
    ("extraction", "List the phone numbers in this mail: 555-1234 and 555-9876"),
    ("extraction", "Read this review and return the result in JSON: the soup was cold."),
]
CHINESE = [
    ("short_qa", "中国的首都是哪里？"),
    ("short_qa", "谁写了《红楼梦》？"),
    ("short_qa", "计算机是谁发明的？"),
    ("chat", "你好，今天过得怎么样？"),
    ("chat", "写一篇关于人类与海洋的短文，语气要温暖"),
    ("chat", "帮我写一封感谢信给我的老师"),
    ("code", "用Python写一个快速排序"),
    ("code", "帮我实现一个判断回文的函数"),
    ("code", "这段代码报错了，帮我看看"),
    ("math", "小明有5个苹果，吃了2个，还剩多少个？"),
    ("math", "求解方程 x^2 - 4 = 0"),
    ("math", "用数学归纳法证明前n个奇数的和等于n的平方"),
    ("summarization", "请总结下面这篇文章：今天市议会开会"),
    ("summarization", "给这段话写一个摘要：会议推迟到周五"),
    ("translation", "把下面的句子翻译成英文：我喜欢读书"),
    ("translation", "“谢谢”用日语怎么说？"),
    ("rag", "根据以下资料回答问题：大桥于1932年通车。"),
    ("rag", "已知信息：大桥于1932年通车。问题：大桥何时通车？"),
    ("extraction", "从下面的文本中提取所有人名和地名：张三去了北京"),
    ("extraction", "找出文中提到的公司：华为与中兴签约"),
]


def test_nearly_all_typical_prompts_are_put_into_their_class() -> None:
    """The likeliest class for all but a few, and the right one among the three for every one."""
    known = [*ENGLISH, *CHINESE]
    found = {prompt: CLASSIFY(prompt[:200], len(prompt)) for _, prompt in known}
    missed = [prompt for expected, prompt in known if found[prompt].prompt_class != expected]
    assert len(missed) <= len(known) // 16, missed
    lost = [prompt for expected, prompt in known if expected not in dict(found[prompt].weights)]
    assert lost == []


def test_every_class_is_in_the_table_in_both_languages() -> None:
    assert {expected for expected, _ in ENGLISH} == set(PROMPT_CLASSES)
    assert {expected for expected, _ in CHINESE} == set(PROMPT_CLASSES)


def accuracy(language: str) -> float:
    """Of prompts written by hand before the classifier was trained, and never trained on."""
    rows = [json.loads(line) for line in CHECKED.read_text("utf-8").splitlines()]
    hits = [
        CLASSIFY(row["prompt"], row.get("characters", len(row["prompt"]))).prompt_class == row["class"]
        for row in rows
        if row["language"] == language
    ]
    assert len(hits) >= 60
    return float(np.mean(hits))


@pytest.mark.parametrize(("language", "at_least"), [("en", 0.85), ("zh", 0.85)])
def test_prompts_that_it_was_not_trained_on_are_put_into_their_classes(
    language: str, at_least: float
) -> None:
    assert accuracy(language) >= at_least


def test_a_long_text_without_an_instruction_is_taken_for_retrieved_context() -> None:
    text = (
        "The bridge was opened to traffic in the spring of 1932 and soon became the landmark of the city. It "
        "spans the river in a single arch of 500 metres and carries eight lanes, two of them once tracks."
    )
    assert CLASSIFY(text[:200], 4000).prompt_class == "rag"


def test_a_long_text_keeps_the_class_its_instruction_names() -> None:
    text = (
        "Summarize: the bridge was opened to traffic in the spring. " + "It spans the river in an arch. " * 9
    )
    assert CLASSIFY(text[:200], 4000).prompt_class == "summarization"


def test_a_question_after_much_text_is_taken_for_one_about_it() -> None:
    question = "When was the bridge opened?"
    assert CLASSIFY(question, len(question)).prompt_class == "short_qa"
    assert CLASSIFY(question, 6000).prompt_class == "rag"


def test_only_the_first_200_characters_count() -> None:
    assert CLASSIFY("x" * 200 + " translate this", 215) == CLASSIFY("x" * 200, 215)
    assert CLASSIFY("x" * 199, 215) != CLASSIFY("x" * 200, 215)


@pytest.mark.parametrize("prompt_characters", [0, 12, 9000])
def test_a_prompt_without_a_text_is_chat(prompt_characters: int) -> None:
    assert CLASSIFY("", prompt_characters).prompt_class == "chat"


@pytest.mark.parametrize(
    "head",
    [
        "",
        " ",
        "\0" * 200,
        "\ud800",
        "😀" * 200,
        "？" * 200,
        "\n" * 300,
        "İ" * 200,
        "a\udfff翻译",
        "\U0010ffff",
    ],
)
@pytest.mark.parametrize("prompt_characters", [0, 200, 1 << 32])
def test_any_text_of_any_length_has_three_classes_of_sound_weights(head: str, prompt_characters: int) -> None:
    weights = CLASSIFY(head, prompt_characters).weights
    chances = [chance for _, chance in weights]
    assert len({name for name, _ in weights} & set(PROMPT_CLASSES)) == 3
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > 0 and chances[-1] >= 0 and sum(chances) <= 1 + 1e-6


def test_the_best_class_is_the_first() -> None:
    assert Classification((("math", 0.7), ("code", 0.2), ("chat", 0.1))).prompt_class == "math"


def test_a_clear_prompt_is_surer_than_one_that_could_be_anything() -> None:
    clear, vague = "Translate to French: The cat sleeps.", "the cat"
    assert CLASSIFY(clear, len(clear)).weights[0][1] > 0.9 > CLASSIFY(vague, len(vague)).weights[0][1]


def test_chances_of_all_classes_add_up_to_one() -> None:
    assert CLASSIFY.chances("Who wrote Faust?", 16).sum() == pytest.approx(1)


def test_a_temperature_flattens_the_chances_and_leaves_their_order() -> None:
    with np.load(WEIGHTS) as file:
        weights, bias = file["weights"], file["bias"]
    sharp, flat = (
        LinearClassifier(weights, bias, temperature)("Who wrote Faust?", 16) for temperature in (1, 5)
    )
    assert [name for name, _ in sharp.weights] == [name for name, _ in flat.weights]
    assert sharp.weights[0][1] > flat.weights[0][1]


def test_weights_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        LinearClassifier(np.zeros((features.SIZE, 7)), np.zeros(8), 1)
    with pytest.raises(ValueError, match="do not fit"):
        LinearClassifier(np.zeros((features.SIZE, 8)), np.zeros(7), 1)


def test_the_shipped_weights_are_small() -> None:
    assert WEIGHTS.stat().st_size <= LARGEST_BYTES


def test_the_router_loads_neither_a_trainer_nor_a_tensor_library() -> None:
    loaded = in_a_new_process("import router.server, sys; print(*sys.modules)").split()
    assert not {"sklearn", "scipy", "torch", "safetensors"} & set(loaded)


def in_a_new_process(source: str) -> str:
    return subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True).stdout
