"""Twenty-four prompts from 5 to 1,500 tokens, half of them plain text, half conversations."""

from __future__ import annotations

from typing import Any

_FACTS = [
    "The harbour was built in {year} by {n} masons who were paid in salt and cloth.",
    "Each of the {n} warehouses along the quay held grain from a different valley.",
    "In {year} a storm carried away the eastern mole, and it took {n} months to raise it again.",
    "Ships of more than {n} tons had to anchor outside and wait for the evening tide.",
    "The customs books of {year} list tea, copper, oranges and {n} barrels of lamp oil.",
    "A bell on the lighthouse was rung every {n} minutes whenever fog came down the river.",
    "After {year} the railway took most of the trade, and {n} families moved inland.",
]


def _chronicle(sentences: int) -> str:
    """Text that repeats itself in shape but never in numbers, so that prompt lookup has something to find."""
    return " ".join(
        _FACTS[i % len(_FACTS)].format(year=1700 + 7 * i % 211, n=3 + 11 * i % 89) for i in range(sentences)
    )


_TEXTS = [
    "The capital of France is",
    "Once upon a time there was a clockmaker who",
    "1, 2, 3, 5, 8, 13,",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
    "The quick brown fox jumps over the lazy dog. The quick brown fox",
    "Water boils at 100 degrees Celsius because",
    "Dear Sir or Madam,\n\nI am writing to",
    "Roses are red, violets are blue,",
    _chronicle(4),
    _chronicle(9),
    _chronicle(24),
    _chronicle(66),
]
_QUESTIONS = [
    "Explain why the sky is blue.",
    "Write a haiku about the sea.",
    "List five fruits, one per line.",
    "Translate to French: The cat sleeps on the warm stone.",
    "What is 17 times 23? Show the steps.",
    "Write a Python function that reverses a string.",
    "Was ist ein Fahrrad? Antworte kurz.",
    "Give me a JSON object with the keys name, age and city.",
    "Repeat this three times: to be or not to be, that is the question.",
    "Summarise in one sentence: " + _chronicle(5),
    "How many tons are mentioned here? " + _chronicle(15),
    "Summarise the following chronicle: " + _chronicle(43),
]

BODIES: list[dict[str, Any]] = [
    *({"prompt": text} for text in _TEXTS),
    *({"messages": [{"role": "user", "content": question}]} for question in _QUESTIONS),
]
