"""Lists of words, written as text."""

from __future__ import annotations


def listed(words: str) -> frozenset[str]:
    return frozenset(words.split())
