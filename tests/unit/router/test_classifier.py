from __future__ import annotations

import pytest

from router.classifier import PROMPT_CLASSES, classify

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


@pytest.mark.parametrize(("expected", "prompt"), [*ENGLISH, *CHINESE])
def test_a_prompt_is_put_into_its_class(expected: str, prompt: str) -> None:
    assert classify(prompt[:200], len(prompt)).prompt_class == expected


def test_every_class_is_in_the_table_in_both_languages() -> None:
    assert {expected for expected, _ in ENGLISH} == set(PROMPT_CLASSES)
    assert {expected for expected, _ in CHINESE} == set(PROMPT_CLASSES)


def test_a_long_text_without_an_instruction_is_taken_for_retrieved_context() -> None:
    head = "The bridge was opened to traffic in the spring and soon became the landmark of the city."
    assert classify(head, 4000).prompt_class == "rag"
    assert classify(head, len(head)).prompt_class == "chat"


def test_a_long_text_keeps_the_class_its_instruction_names() -> None:
    assert classify("Summarize: the bridge was opened to traffic", 4000).prompt_class == "summarization"


def test_only_the_first_200_characters_count() -> None:
    assert classify("x" * 200 + " translate this", 215).prompt_class == "chat"


def test_an_empty_prompt_is_chat() -> None:
    assert classify("", 0).prompt_class == "chat"
