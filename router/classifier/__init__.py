"""Sorts prompts into classes by what they begin with, how long they are and what their characters are.

What a prompt asks for decides which draft guesses it well: extraction and summaries repeat their input,
code repeats itself, chat repeats nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from router.classifier.features import HEAD_CHARACTERS
from router.classifier.model import PROMPT_CLASSES, Classification, LinearClassifier

Classifier = Callable[[str, int], Classification]
"""From the head of the last user turn and the length of the whole prompt to the classes that fit best."""

__all__ = ["HEAD_CHARACTERS", "PROMPT_CLASSES", "Classification", "Classifier", "LinearClassifier"]
