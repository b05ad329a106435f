"""Sentences that deny, suppose or ask: they do not claim."""

from __future__ import annotations

import re

from fact_check_service.sentences import Span

_DENIAL = (
    r"\b(?:not|never|no longer|neither|nor|cannot|myth|false(?:ly)?|incorrect(?:ly)?|wrong(?:ly)?"
    r"|mistaken(?:ly)?|impossible|instead of|rather than|if|unless|hypothetical(?:ly)?)\b|n['’]t\b|[?？]"
    r"|不是|并非|并不|没有|从未|未曾|不会|不再|不可能|而非|错误|误以为|误认为|谣言|谣传|如果|假如|假设|倘若|若是|除非|是否|吗"
)
_DENIED = re.compile(_DENIAL, re.IGNORECASE)
_DOUBTED = re.compile(rf"{_DENIAL}|\b(?:would|could|might)\b|可能|或许|也许", re.IGNORECASE)


def denied(text: str, sentence: Span) -> bool:
    """Whether the sentence denies, supposes or asks."""
    return _DENIED.search(text, *sentence) is not None


def doubtful(text: str, sentence: Span) -> bool:
    """Whether it does, or says only what might be."""
    return _DOUBTED.search(text, *sentence) is not None
